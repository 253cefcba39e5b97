#include "planned.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "calibration.h"
#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/made_up.h"
#include "trireme/config/paths.h"
#include "trireme/config/phases.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/weights.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/model/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/simulate/simulate.h"
#include "weights.h"

namespace trireme::app {
namespace {

std::string layout_text(const config::Job& job) {
  const config::Parallel& p = job.parallel;
  std::string text;
  const auto add = [&](const char* axis, int degree) {
    if (degree > 1) text += fmt::format("{} {}, ", axis, degree);
  };
  const bool shards = p.zero > 0;
  add("pp", p.pp);
  if (shards) add("dp_replicate", p.dp_replicate);
  shards ? add("dp_shard", p.dp_shard) : add("dp", p.dp_replicate * p.dp_shard);
  add("cp", p.cp);
  if (p.cp > 1)
    text += fmt::format("{}, ",
                        std::get<std::string>(config::find_field("parallel.context")->get(job)));
  add("tp", p.tp);
  if (p.tp > 1 && p.sequence_parallel) text += "sequence parallel, ";
  if (shards) return text + fmt::format("ZeRO-{}", p.zero);
  if (p.dp_replicate * p.dp_shard * p.cp > 1) return text + "replicated (ZeRO-0)";
  return text.empty() ? "one rank" : text.substr(0, text.size() - 2);
}

// What people know a family's models by.
std::string sizes_text(const config::Job& job) {
  if (!config::is_decoder(job.model.family)) return "";
  const config::Model& m = job.model;
  return fmt::format("{} layers, {} wide, {} heads, context {}, vocabulary {}: ", m.layers,
                     m.hidden, m.heads, m.seq_len, m.vocab);
}

std::string memory_text(const plan::MemoryPoint& point) {
  std::string text;
  for (std::size_t kind = 0; kind < point.size(); ++kind)
    if (point[kind] > 0)
      text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ",
                          plan::name(static_cast<plan::MemoryKind>(kind)),
                          static_cast<double>(point[kind]) / 1e6);
  return text;
}

void check_cuda(const Place& place) {
#ifndef TRIREME_CUDA
  fail(ErrorKind::kUsage,
       "run.device=cuda, but this build has no CUDA; choose run.device=cpu, or build with a "
       "LibTorch "
       "for CUDA (docs/gpu.md)");
#endif
  if (place.launcher == Launcher::kThreads && place.world > 1)
    fail(
        ErrorKind::kUsage,
        "run.device=cuda with --ranks {}: autograd has one thread a GPU, in which ranks as threads "
        "would wait for each other for ever; start processes, one a GPU: --nproc {}",
        place.world, place.world);
}

config::Job phase_job(const JobOptions& options, const config::Job& base) {
  for (const config::Phase& phase : config::load_phases(options.file, base)) {
    if (phase.name.empty())
      fail(ErrorKind::kUsage, "--phase {}: {} has no phases; leave it out", options.phase,
           options.file);
    if (phase.name == options.phase) return phase.job;
  }
  fail(ErrorKind::kUsage, "--phase {}: {} has the phases {}", options.phase, options.file,
       config::phase_names(config::load_phases(options.file)));
}

config::Job read_over(const JobOptions& options, const config::Job& base) {
  config::Job job =
      options.phase.empty() ? config::load_job_over(base, options.file) : phase_job(options, base);
  for (const std::string& assignment : options.assignments) config::apply_set(job, assignment);
  return job;
}

}  // namespace

config::Job with_absolute_paths(config::Job job) {
  const auto absolute = [](std::string_view path) {
    return std::filesystem::absolute(path).lexically_normal().string();
  };
  for (std::string* path : config::paths_of(job)) {
    if (path->empty()) continue;
    if (path != &job.data.path || job.data.weights.empty()) {
      *path = absolute(*path);
      continue;
    }
    std::string list;  // of several data sets
    for (const config::DataSet& set : config::data_sets(job.data))
      list += (list.empty() ? "" : ",") + absolute(set.path);
    *path = std::move(list);
  }
  return job;
}

bool takes_vocabulary(const config::Data& data) {
  std::error_code cause;
  return data.source == config::DataSource::kText &&
         (data.path.empty() ||
          !std::filesystem::exists(Path(data.path) / text::kDatasetName, cause));
}

config::Job read_job(const JobOptions& options, const Path& run) {
  if (options.file.empty())
    fail(ErrorKind::kUsage, "which job? Give a job.yaml, such as recipes/quickstart.yaml");
  config::check_allowed(options.allow);
  const config::Job job = read_over(options, {});
  const std::optional<Origin> origin = origin_of(job.model.weights, run);
  if (!origin) return job;
  config::Job base;
  base.model.family = origin->job.model.family;
  base = config::defaults_from(origin->job, read_over(options, base).model.family);
  const bool other_vocabulary =
      std::ranges::find(options.allow, config::kVocabularyKey) != options.allow.end();
  if (!other_vocabulary && takes_vocabulary(read_over(options, base).data))
    base.data.tokenizer = origin->vocabulary.value_or(Path(base.data.tokenizer)).string();
  return read_over(options, base);
}

config::Job read_job(const TrainOptions& options) {
  config::Job job = read_job(options.job, options.out);
  if (!job.model.weights.empty())
    job.model.weights = settled_weights(job.model.weights, options.out,
                                        options.resume != "auto" && options.resume != "never")
                            .string();
  if (!options.steps) return job;
  if (*options.steps < 1)
    fail(ErrorKind::kUsage, "--steps {}; needs the number of the last step, 1 or more",
         *options.steps);
  // The learning rate follows the job's own length, so that a run may stop early and continue later.
  if (job.optim.decay_steps == 0) job.optim.decay_steps = job.run.steps;
  config::apply_set(job, fmt::format("run.steps={}", *options.steps));
  return job;
}

std::string job_name(const JobOptions& options) {
  const std::string stem = std::filesystem::path(options.file).stem().string();
  const std::string phase = options.phase.empty() ? "" : "-" + options.phase;
  return (stem.empty() ? "job" : stem) + phase;
}

std::string job_in_memory(const std::string& text) {
  const int fd = ::memfd_create("job", 0);
  TRIREME_CHECK(
      fd >= 0 && ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()),
      "memfd");
  return fmt::format("/proc/self/fd/{}", fd);
}

void check_early(const config::Job& job, const Place& place) {
  if (job.run.device == config::Device::kCuda) check_cuda(place);
  if (job.run.find_micro_batch && job.checkpoint.memory_every > 0)
    fail(ErrorKind::kUsage,
         "run.find_micro_batch with checkpoint.memory_every={}: ranks that start again from memory "
         "would look again and may find another; find it with checkpoint.memory_every=0 under "
         "--ranks or --nproc, then set run.micro_batch",
         job.checkpoint.memory_every);
  if (job.run.find_micro_batch && place.launched() && place.world > 1)
    fail(ErrorKind::kUsage,
         "run.find_micro_batch: the ranks were started by another program, which would have to "
         "start the trial as well; find it with --ranks or --nproc, then set run.micro_batch");
  // Without a vocabulary of its own or the data's, any will do to check the rest.
  constexpr std::int64_t kSomeVocab = 65536;  // stands for that of data that are not there yet
  constexpr std::int64_t kSomeClasses = 1000;
  try {
    const config::MadeUpSource* known = config::made_up(job.data.source);
    plan_job(job, place.world,
             known != nullptr ? known->facts
             : !config::files_of(job.data.source).empty()
                 ? config::DatasetFacts{.vocab = 256,
                                        .classes = job.vision.classes == 0 ? kSomeClasses : 0}
                 : config::DatasetFacts{.vocab = job.model.vocab == 0 ? kSomeVocab : 0});
  } catch (const Error& error) {
    // Whether recompute.memory is enough depends on the vocabulary, and on a micro_batch that may be looked for.
    if (error.kind() != ErrorKind::kNoRoom) throw;
  }
}

void refuse_search(const config::Job& job, std::string_view command) {
  if (job.run.find_micro_batch)
    fail(ErrorKind::kUsage,
         "run.find_micro_batch: {} takes run.micro_batch={} as it is, only train looks for the "
         "largest; set run.find_micro_batch=false",
         command, job.run.micro_batch);
}

Planned plan_job(config::Job job, int world, const config::DatasetFacts& data) {
  Planned planned;
  planned.job = config::resolve(std::move(job), world, data);
  planned.model = model::describe(planned.job);
  planned.plan =
      plan::compile(planned.model.program, model::mesh_of(planned.job),
                    model::recipe_of(planned.job), model::grid_of(planned.job, planned.model));
  plan::validate(planned.plan);
  plan::check_activations_leave(planned.plan);
  return planned;
}

std::string choice_of_precision(const config::Job& resolved) {
  const std::string type(name(resolved.precision.compute));
  if (resolved.run.device == config::Device::kCuda)
    return fmt::format("precision.compute=auto is {} on GPUs", type);
  return fmt::format("precision.compute=auto is {} here, the fastest on a CPU with {}", type,
                     name(matrix_unit()));
}

std::string short_summary(const Planned& planned, const Place& place) {
  const config::Job& job = planned.job;
  const config::Model& m = job.model;
  const plan::MemoryAccount memory = plan::memory_account(planned.plan, 0);
  std::string text =
      fmt::format("model     {}: {}{:.2f}M parameters\n", name(m.family), sizes_text(job),
                  static_cast<double>(planned.model.parameters()) / 1e6);
  text +=
      fmt::format("step      {} samples of {} tokens: {} x {} micro-batches of {} samples, {}\n",
                  job.run.global_batch, planned.model.sample_tokens, config::dp(job),
                  config::accumulation(job), job.run.micro_batch, name(job.precision.compute));
  text += fmt::format("layout    {}\n", layout_text(job));
  text += fmt::format("plan      {} lines a rank, proven free of deadlock, digest {}\n",
                      planned.plan.list(0).size(), hex64(plan::digest(planned.plan)));
  text += fmt::format("memory    {:.1f} MB a rank at its peak ({} at their peaks)\n",
                      static_cast<double>(memory.peak_total) / 1e6, memory_text(memory.peak));
  const planner::StepForecast expected = expect(planned, place);
  if (expected.step_s == 0) return text + fmt::format("forecast  {}\n", expected.source);
  const simulate::ListForecast& first = expected.lines.lists.front();
  text += fmt::format(
      "forecast  {:.1f} ms a step{}: {:.1f} ms computing, {:.1f} ms waiting for communication, "
      "{}{:.1f} MB sent\n",
      1e3 * expected.step_s,
      expected.low_s > 0
          ? fmt::format(" ({:.1f} to {:.1f})", 1e3 * expected.low_s, 1e3 * expected.high_s)
          : " on one core a rank",
      1e3 * first.comp_busy_s, 1e3 * first.exposed_comm_s,
      first.exposed_offload_s > 0
          ? fmt::format("{:.1f} ms waiting for offload, ", 1e3 * first.exposed_offload_s)
          : "",
      first.sent_bytes / 1e6);
  if (expected.process_bytes > 0)
    text +=
        fmt::format("          {:.1f} MB held by the process of rank 0, without pages of files\n",
                    expected.process_bytes / 1e6);
  text += fmt::format("          {}\n", expected.source);
  return text;
}

}  // namespace trireme::app
