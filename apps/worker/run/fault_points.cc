#include "fault_points.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "apps/guard.h"
#include "apps/worker/processes.h"
#include "trireme/launch/elastic/ranks.h"

namespace trireme::app {
namespace {

void act(const faults::Fault& fault) {
  using faults::Action;
  print_error("note", "a fault made on purpose: " + print(fault));
  switch (fault.action) {
    case Action::kKill:
    case Action::kTorn: ::kill(::getpid(), SIGKILL); break;
    case Action::kStop: ::kill(::getpid(), SIGSTOP); break;
    case Action::kTerm: ::kill(::getpid(), SIGTERM); break;
    case Action::kAbort: std::abort();
    case Action::kExit: ::_exit(static_cast<int>(fault.amount));
    case Action::kDelay:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.amount));
      break;
    case Action::kThrow: throw std::runtime_error("thrown on purpose: " + print(fault));
    case Action::kError:
    case Action::kShort:
    case Action::kLie:
    case Action::kFlip: break;  // what the disk call returns
  }
}

}  // namespace

FaultPoints::FaultPoints(const Arguments& arguments, int ranks) {
  if (!arguments.has("faults")) return;
  if (is_process_of_a_world()) first_rank_ = std::atoi(variable("RANK", "0").c_str());
  const std::uint64_t generation =
      std::strtoull(variable(elastic::kGenerationVariable, "1").c_str(), nullptr, 10);
  for (int rank = 0; rank < ranks; ++rank)
    ranks_.push_back(std::make_unique<faults::Injector>(
        faults::Injector::Config{.faults = faults::parse(arguments.text("faults")),
                                 .rank = first_rank_ + rank,
                                 .generation = generation,
                                 .notes = arguments.text("fault-notes"),
                                 .act = act}));
}

void FaultPoints::start(const char* stage) {
  for (const auto& rank : ranks_) rank->start(stage);
}

void FaultPoints::arm(comm::World& world, train::TrainSetup& setup) {
  if (ranks_.empty()) return;
  faults::Injector& rank = *ranks_[world.rank() - first_rank_];
  rank.start("mesh");
  world.flight().show(&rank);
  setup.files = &rank.files(*setup.files);
  setup.memory_files = &rank.memory_files(*setup.memory_files);
}

}  // namespace trireme::app
