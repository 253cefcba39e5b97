#include "process_memory.h"

#include <ATen/Parallel.h>
#include <fmt/core.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>

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

// Keeps what the process holds besides the range of large tensors.
class KeepOutside final : public train::Callback {
 public:
  explicit KeepOutside(double& outside) : outside_(outside) {}
  void on_end(const train::RunEnd& end) override {
    outside_ = std::max(end.measured_process - static_cast<double>(held_by_large_tensors()), 0.0);
  }

 private:
  double& outside_;
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

double outside_tensors_of_small_job(int ranks) {
  constexpr double kTimeout = 600;
  const Scratch scratch;
  const config::Job job = small_job(ranks);
  double outside = 0;
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
      callbacks.push_back(std::make_unique<KeepOutside>(outside));
    }
    train::train(setup, world, callbacks);
  });
  return outside;
}

}  // namespace

// The second run finds what the first has freed, so that it adds one rank.
ProcessMemory measure_process_memory() {
  const double one = outside_tensors_of_small_job(1), two = outside_tensors_of_small_job(2);
  return {.process = one, .process_rank = std::max(two - one, 0.0)};
}

}  // namespace trireme::app
