// The trainer: data, executor, checkpoints and callbacks around one plan.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/data/loaders/source.h"
#include "trireme/exec/block.h"
#include "trireme/planner/hardware/machine.h"
#include "trireme/train/callbacks.h"
#include "trireme/train/run/islands.h"
#include "trireme/train/watch/tensor_memory.h"

namespace trireme::train {

struct TrainSetup {
  config::Job job;  // resolved for this world
  Path dataset;     // a prepared dataset directory
  Path out;         // RUNDIR
  Path resume;      // a step-N directory; empty: start fresh
  Path memory{};    // a directory that lasts while ranks are started again; empty: none
  std::string build_id;
  Provenance from{};
  std::optional<planner::Calibration> calibration{};  // of this machine and build, for forecasts
  std::string uncalibrated = "no calibration was given";  // else the reason for its absence
  Path peaks{};  // where this machine's fastest products are kept (SeenPeaks); empty: nowhere
  planner::RanksAs ranks = planner::RanksAs::kThreads;
  TensorMemory* tensors = nullptr;      // what the allocator charges to this rank, if it counts
  std::optional<IslandSetup> island{};  // the run is an island of several jobs
  // Samples and model of a program with its own; empty: those of the job's source and family.
  std::function<loaders::Sources(const config::Job&)> sources{};
  std::function<exec::Model(const config::Job&, comm::World&)> model{};
  const std::atomic<int>* stop = nullptr;  // nonzero: end the step, save, return kInterrupted
  os::FileSystem* files = &os::real_file_system();         // checkpoints are written through it
  os::FileSystem* memory_files = &os::real_file_system();  // and what lies in `memory`
};

// Runs one rank to the end. A checkpoint that cannot be written is reported, and the next one is tried when it is due.
// If it is the last one, the run ends with Error{kData}. Collective: every rank of the world calls it with an equal
// job. Ranks that disagree on job, plan or data are refused before the first step, by name. Callbacks fire on the rank
// that has them.
Ending train(const TrainSetup& setup, comm::World& world, const Callbacks& callbacks);

}  // namespace trireme::train
