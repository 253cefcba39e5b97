#include "phases.h"

#include <filesystem>

#include "apps/trireme/environment.h"
#include "apps/trireme/summary.h"
#include "before_training.h"
#include "child_runs.h"
#include "trireme/base/error.h"
#include "trireme/config/parse.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

JobOptions one_of(const TrainOptions& options, const config::Phase& phase) {
  JobOptions one = options.job;
  one.phase = phase.name;
  return one;
}

config::Job job_of(const TrainOptions& options, const config::Phase& phase) {
  return read_job(one_of(options, phase));
}

std::vector<std::string> command_of(const TrainOptions& options, const config::Phase& phase,
                                    const Path& out, const Path& weights) {
  JobOptions one = one_of(options, phase);
  if (!weights.empty()) one.assignments.push_back("model.weights=" + weights.string());
  std::vector<std::string> command = train_command(one, out);
  if (!options.calibrate) command.push_back("--no-calibrate");
  if (options.quiet) command.push_back("--quiet");
  if (options.verbose) command.push_back("--verbose");
  return command;
}

void check(const TrainOptions& options) {
  const auto refuse = [](const char* key) {
    fail(ErrorKind::kUsage, "{} is of one run; choose one of the phases with --phase", key);
  };
  if (options.steps) refuse("--steps");
  if (options.resume != "auto") refuse("--resume");
  if (options.baseline) refuse("--baseline");
  if (!options.faults.empty()) refuse("--faults");
  if (find_place(options.job.ranks, options.job.nproc).launched())
    fail(ErrorKind::kUsage,
         "a job in phases under another program's launcher: start one phase at a time with "
         "--phase, or all of them with --ranks or --nproc");
}

// Nothing is trained before every phase has been looked at.
void check_phases(const TrainOptions& options, const std::vector<config::Phase>& phases) {
  for (const config::Phase& phase : phases) {
    try {
      check_early(job_of(options, phase), find_place(options.job.ranks, options.job.nproc));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("phase {}: {}", phase.name, error.what()));
    }
  }
}

}  // namespace

bool has_phases(const JobOptions& job) {
  return !job.file.empty() && job.phase.empty() &&
         !config::load_phases(job.file).front().name.empty();
}

int train_phases(const TrainOptions& options) {
  check(options);
  end_on_stop_signals();
  const std::vector<config::Phase> phases = config::load_phases(options.job.file);
  check_phases(options, phases);
  const Path out = options.out.empty() ? fresh_run(job_name(options.job)) : Path(options.out);
  make_directories(out);
  std::vector<Path> ends;
  for (std::size_t i = 0; i < phases.size(); ++i) {
    const config::Phase& phase = phases[i];
    const Path run = out / phase.name;
    const Path weights = phase.from ? ends[*phase.from] : Path();
    const bool done = has_ended(run, job_of(options, phase).run.steps);
    fmt::print("phase     {} ({} of {}){}\n", phase.name, i + 1, phases.size(),
               done ? ": done before" : "");
    std::fflush(stdout);
    if (!done) {
      const int code = run_child(command_of(options, phase, run, weights));
      if (code != 0) {
        fmt::print("phase     {} ended with {}; the same command with --out {} continues there\n",
                   phase.name, code, out.string());
        return code;
      }
    }
    ends.push_back(fs::absolute(find_checkpoint(run)).lexically_normal());
  }
  return 0;
}

}  // namespace trireme::app
