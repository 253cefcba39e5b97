// Memory that a training process holds in addition to the tensors of its steps.
#pragma once

namespace trireme::app {

// Bytes, measured by short training runs of a small model in this process, with their reports and checkpoints.
struct ProcessMemory {
  double process = 0;       // of one rank
  double process_rank = 0;  // more for each further rank that is a thread
};

// Call before the process has held anything else.
ProcessMemory measure_process_memory();

}  // namespace trireme::app
