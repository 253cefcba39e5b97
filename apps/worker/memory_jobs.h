// Jobs of many kinds, for what they need of memory.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::app {

struct MemoryJob {
  std::string name;  // its size and what is set
  config::Job job;   // resolved
  int world = 1;
};

// Families, sizes from 0.1 to 124 million parameters, layouts, rows of ZeRO, recomputation, types and micro-batches.
std::vector<MemoryJob> memory_jobs();

}  // namespace trireme::app
