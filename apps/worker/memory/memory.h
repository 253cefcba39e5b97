// The process's memory: what a step frees is there for the next one, and each rank's tensors are counted.
#pragma once

#include "trireme/train/watch/tensor_memory.h"

namespace trireme::app {

// Buffers of a step come and go, and the next step wants the same. Small ones stay with malloc, which keeps what is
// freed; large ones, which malloc would scatter among the small, go through LibTorch's CPU allocator into one
// growing stretch of huge pages. Call once, before the first tensor.
void keep_freed_memory();

// What tensors made by this thread are charged to: the process's own count, unless a ChargeAnew says otherwise.
train::TensorMemory& charged_here();

// While it lives, tensors made by this thread are charged to a count of their own, which lasts as long as the
// process: for a rank that is a thread among others.
class ChargeAnew {
 public:
  ChargeAnew();
  ~ChargeAnew();
  ChargeAnew(const ChargeAnew&) = delete;
  ChargeAnew& operator=(const ChargeAnew&) = delete;

 private:
  train::TensorMemory* before_;
};

}  // namespace trireme::app
