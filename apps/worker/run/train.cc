// trireme-worker train: the rank or ranks of this process.
#include <signal.h>
#include <sys/ioctl.h>
#include <torch/version.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

#include "apps/build_id.h"
#include "apps/colour.h"
#include "apps/guard.h"
#include "apps/run_record.h"
#include "apps/worker/memory/memory.h"
#include "apps/worker/processes.h"
#include "apps/worker/subcommands.h"
#include "fault_points.h"
#include "interrupts.h"
#include "rank_watch.h"
#include "trireme/base/host_name.h"
#include "trireme/config/resolve/resolve_conversations.h"
#include "trireme/launch/elastic/ranks.h"
#include "trireme/launch/elastic/secret.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/progress.h"
#include "trireme/train/callbacks/report.h"
#include "trireme/train/callbacks/tensorboard.h"
#include "trireme/train/run/reference.h"
#include "trireme/train/trainer.h"
#include "written.h"

namespace trireme::app {
namespace {

// Where an agent has started this process, the agent does; else one rank of all.
bool says_what_follows() {
  return variable(elastic::kFlightVariable, "").empty() && variable("RANK", "0") == "0";
}

void say_note(const std::string& text) { print_error("note", text); }

int terminal_columns() {
  constexpr int kUnknown = 80;
  winsize size{};
  return ::ioctl(1, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUnknown;
}

// Of what computed here.
std::string versions() {
  std::string text = fmt::format("{}, LibTorch {}", build_id(), TORCH_VERSION);
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (const std::size_t at = line.find(": "); line.starts_with("model name") && at != line.npos)
      return text + ", " + line.substr(at + 2);
  return text;
}

train::ReportOptions report_options(const train::TrainSetup& setup,
                                    std::optional<double> baseline) {
  train::ReportOptions options{.baseline = baseline};
  if (writes_samples(setup.job))
    options.write = [job = setup.job, run = setup.out,
                     dataset = setup.dataset](const Path& checkpoint) {
      return write_samples(job, checkpoint, run, dataset);
    };
  return options;
}

train::Callbacks make_callbacks(const train::TrainSetup& setup, const Arguments& arguments) {
  std::optional<double> baseline;
  if (arguments.has("baseline")) baseline = arguments.number<double>("baseline");
  train::ProgressOptions progress{.write =
                                      [](std::string_view text) {
                                        std::fwrite(text.data(), 1, text.size(), stdout);
                                        std::fflush(stdout);
                                      },
                                  .columns = {},
                                  .log_every = setup.job.run.log_every,
                                  .baseline = baseline,
                                  .colours = takes_colours(STDOUT_FILENO)};
  if (::isatty(1) && !arguments.has("quiet")) progress.columns = terminal_columns;
  train::Callbacks callbacks;
  callbacks.push_back(train::jsonl_callback());
  callbacks.push_back(train::tensorboard_callback());
  callbacks.push_back(train::report_callback(report_options(setup, baseline)));
  callbacks.push_back(train::progress_callback(std::move(progress)));
  return callbacks;
}

// Rank 0's run directory and checkpoint are the world's.
void agree(train::TrainSetup& setup, comm::World& world) {
  const std::string first = world.exchange(setup.out.string() + "\n" + setup.resume.string())[0];
  setup.out = first.substr(0, first.find('\n'));
  setup.resume = first.substr(first.find('\n') + 1);
}

train::Ending train_rank(train::TrainSetup setup, comm::World& world, const Arguments& arguments,
                         FaultPoints& points) {
  points.arm(world, setup);
  agree(setup, world);
  config::place_reference(setup.job, setup.out);
  train::prepare_reference(setup, world, [](const std::string& text) {
    fmt::print("{}\n", text);
    std::fflush(stdout);
  });
  setup.tensors = &charged_here();
  return train::train(setup, world,
                      world.rank() == 0 ? make_callbacks(setup, arguments) : train::Callbacks());
}

// A replay ends by `replayed`, and keeps all checkpoints, because later runs of the tape begin with them.
void be_island(train::TrainSetup& setup, const Arguments& arguments, std::atomic<int>& replayed) {
  const std::string island = arguments.text("island");
  const std::size_t slash = island.find('/');
  setup.island = {.leader = arguments.text("islands"),
                  .island = std::stoi(island.substr(0, slash)),
                  .islands = std::stoi(island.substr(slash + 1)),
                  .run = arguments.text("replay-run", ""),
                  .last = arguments.number<std::int64_t>("replay-last", 0),
                  .stop = &replayed};
  if (setup.island->run.empty()) {
    setup.island->token = elastic::read_token(arguments.text("token-file"));
    setup.island->asked = setup.stop;
    setup.island->on_note = say_note;
  } else {
    setup.stop = &replayed;
    setup.job.checkpoint.keep_last = 0;
  }
}

}  // namespace

int train(const Arguments& arguments) {
  const Interrupts interrupts(says_what_follows() ? say_note : nullptr);
  claim_flight_record();
  train::TrainSetup setup;
  const Path job = arguments.text("job");
  setup.job = config::parse_job(read_file(job), job.string());
  setup.dataset = arguments.text("dataset", "");
  setup.out = arguments.text("out", "");
  setup.resume = arguments.text("resume", "");
  setup.memory = variable(elastic::kMemoryVariable, "");
  setup.build_id = build_id();
  setup.from = {.command = arguments.text("command", ""),
                .data = arguments.text("data", ""),
                .versions = versions()};
  if (arguments.has("calibration")) {
    const Path file = arguments.text("calibration");
    setup.calibration = planner::parse_calibration(read_file(file), file.string());
  }
  setup.uncalibrated = arguments.text("uncalibrated", setup.uncalibrated);
  setup.peaks = arguments.text("peaks", "");
  setup.ranks = is_process_of_a_world() ? planner::RanksAs::kProcesses : planner::RanksAs::kThreads;
  setup.stop = &interrupts.first();
  std::atomic<int> replayed{0};
  if (arguments.has("islands")) be_island(setup, arguments, replayed);
  std::atomic<train::Ending> ending{train::Ending::kDone};
  const int ranks = arguments.number<int>("ranks", 1);
  // Ranks that are processes are watched by their parent.
  watch::Patience patience = patience_of(setup.job.run);
  if (is_process_of_a_world() || !variable(elastic::kFlightVariable, "").empty())
    patience.steps = 0;
  RankWatch watch(patience, ranks, [&](const watch::Hang& hang, const auto& lines) {
    print_error("note", hang.cause);
    write_hang(setup.out, hang.cause, lines);
    write_event(setup.out, {.kind = "rank silent",
                            .rank = hang.ranks.front(),
                            .host = host_name(),
                            .step = hang.step,
                            .op = hang.op,
                            .cause = hang.cause,
                            .action = "report"});
  });
  FaultPoints points(arguments, ranks);
  points.start("process");
  if (const int signal = interrupts.first(); signal != 0 && !is_process_of_a_world()) {
    print_error("interrupted",
                os::signal_name(signal) + " came before training began; nothing new was saved");
    return 128 + signal;
  }
  run_ranks_here(
      ranks, setup.job,
      [&](comm::World& world) {
        const RankWatch::Member member(watch, world);
        ending = train_rank(setup, world, arguments, points);
      },
      [&](const char* stage) { points.start(stage); });
  if (ending == train::Ending::kDone) return 0;
  const int signal = interrupts.first();
  return 128 + (signal != 0 ? signal : SIGTERM);
}

}  // namespace trireme::app
