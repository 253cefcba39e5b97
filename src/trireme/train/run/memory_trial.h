// A few steps of a job, for what they show of its memory.
#pragma once

#include "trireme/base/fs.h"
#include "trireme/comm/world.h"
#include "trireme/config/job.h"
#include "trireme/train/watch/memory_meter.h"

namespace trireme::train {

struct MemoryTrial {
  std::int64_t forecast = 0;  // the plan's peak of this rank
  MemoryPeaks measured;
};

// Trains `steps` steps on samples of the job, or for text on random tokens, and writes no files that remain.
// Collective; `tensors` as for MemoryMeter, `scratch` as for JobSession.
MemoryTrial try_memory(const config::Job& job, comm::World& world, TensorMemory* tensors, int steps,
                       const Path& scratch = {});

}  // namespace trireme::train
