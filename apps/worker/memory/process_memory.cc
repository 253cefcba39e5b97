#include "process_memory.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "memory.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/report.h"
#include "trireme/train/callbacks/tensorboard.h"
#include "trireme/train/machine.h"
#include "trireme/train/trainer.h"

namespace trireme::app {
namespace {

// A run directory that is deleted at the end.
class Scratch {
 public:
  Scratch() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / ("trireme-" + std::string(6, 'X'))).string();
    if (::mkdtemp(pattern.data()) == nullptr)
      fail(ErrorKind::kData, "{} could not be made; set TMPDIR to a directory that can be written",
           pattern);
    path_ = pattern;
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

struct Held {
  double all = 0;    // by the process
  double steps = 0;  // by the tensors of all ranks at their peaks in a step
  double outside_steps() const { return std::max(all - steps, 0.0); }
};

class KeepHeld final : public train::Callback {
 public:
  explicit KeepHeld(Held& held) : held_(held) {}
  void on_end(const train::RunEnd& end) override {
    held_.all = end.measured_process;
    held_.steps = static_cast<double>(
        std::accumulate(end.measured_bytes.begin(), end.measured_bytes.end(), std::int64_t{0}));
  }

 private:
  Held& held_;
};

config::Job small_job(int ranks) {
  config::Job job;
  job.model.layers = 8;
  job.model.hidden = 64;
  job.model.heads = 4;
  job.model.seq_len = 32;
  job.data.source = config::DataSource::kWords;
  job.run.global_batch = 2 * ranks;
  job.run.micro_batch = 1;
  job.run.steps = 12;  // a process still grows in its first ones
  job.run.eval_every = -1;
  return config::resolve(job, ranks, config::synthetic_source(job.data.source)->facts);
}

Held train_small(int ranks) {
  constexpr double kTimeout = 600;
  const Scratch scratch;
  const config::Job job = small_job(ranks);
  Held held;
  comm::run_local_ranks(ranks, kTimeout, [&](comm::World& world) {
    const ChargeAnew charge;
    at::set_num_threads(1);
    train::TrainSetup setup;
    setup.job = job;
    setup.out = scratch.path();
    setup.tensors = &charged_here();
    train::Callbacks callbacks;
    if (world.rank() == 0) {
      callbacks.push_back(train::jsonl_callback());
      callbacks.push_back(train::tensorboard_callback());
      callbacks.push_back(train::report_callback());
      callbacks.push_back(std::make_unique<KeepHeld>(held));
    }
    train::train(setup, world, callbacks);
  });
  return held;
}

}  // namespace

// The second run finds what the first has freed, so that it adds one rank.
ProcessMemory measure_process_memory() {
  const Held one = train_small(1), two = train_small(2);
  return {.process = one.outside_steps(),
          .process_rank = std::max(two.outside_steps() - one.outside_steps(), 0.0)};
}

}  // namespace trireme::app
