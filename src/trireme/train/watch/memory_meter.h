// MemoryMeter: the most that a rank's tensors have held, by part of a run.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>

#include "trireme/train/watch/tensor_memory.h"

namespace trireme::train {

// Bytes; 0 where nothing was measured.
struct MemoryPeaks {
  std::int64_t steps = 0;  // in any step
  std::int64_t all = 0;    // from the beginning, with loading, evaluation and saving
};

// On a CPU by what the program's allocator charges to the rank, on a GPU by LibTorch's own statistics.
class MemoryMeter {
 public:
  // `tensors` may be null: then a CPU's are not measured.
  MemoryMeter(TensorMemory* tensors, c10::Device device) : tensors_(tensors), device_(device) {}

  // Around every step, and once at the end.
  void begin_step();
  std::int64_t end_step();  // the step's peak
  MemoryPeaks peaks();

 private:
  std::int64_t peak() const;
  void mark();

  TensorMemory* tensors_;
  c10::Device device_;
  MemoryPeaks peaks_;
};

}  // namespace trireme::train
