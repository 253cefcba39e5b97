#include "trireme/train/watch/memory_meter.h"

#include <algorithm>

#include "trireme/train/gpu.h"

namespace trireme::train {

std::int64_t MemoryMeter::peak() const {
  if (!device_.is_cpu()) return gpu_peak_bytes();
  return tensors_ == nullptr ? 0 : tensors_->peak();
}

void MemoryMeter::mark() {
  peaks_.all = std::max(peaks_.all, peak());
  if (!device_.is_cpu())
    restart_gpu_peak();
  else if (tensors_ != nullptr)
    tensors_->mark();
}

void MemoryMeter::begin_step() { mark(); }

std::int64_t MemoryMeter::end_step() {
  const std::int64_t most = peak();
  peaks_.steps = std::max(peaks_.steps, most);
  mark();
  return most;
}

MemoryPeaks MemoryMeter::peaks() {
  mark();
  return peaks_;
}

}  // namespace trireme::train
