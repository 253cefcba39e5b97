// The process's memory: what a step frees is there for the next one, and each rank's tensors are counted.
#pragma once

#include "trireme/train/watch/tensor_memory.h"

namespace trireme::app {

// Buffers of a step come and go, and the next step wants the same. Small ones stay with malloc, which keeps freed
// memory. Large ones, which malloc would scatter among the small, go through LibTorch's CPU allocator into one growing
// range of huge pages. Call once, before the first tensor.
void keep_freed_memory();

// Bytes of that range: whole huge pages.
std::size_t held_by_large_tensors();

// The account of tensors made by this thread: the process's own, unless a ChargeAnew sets another.
train::TensorMemory& charged_here();

// While it lives, tensors made by this thread are charged to a separate account, which lasts as long as the process. It
// serves ranks that are threads of one process.
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
