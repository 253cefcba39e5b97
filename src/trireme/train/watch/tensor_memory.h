// TensorMemory: what the tensors of one rank hold, live and at most.
#pragma once

#include <atomic>
#include <cstdint>

namespace trireme::train {

// Charged by the allocator of the program that runs the rank. Any thread may take and give: what one rank has
// made another thread may free.
class alignas(64) TensorMemory {
 public:
  void take(std::int64_t bytes) {
    const std::int64_t live = live_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::int64_t peak = peak_.load(std::memory_order_relaxed);
    while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
  }
  void give(std::int64_t bytes) { live_.fetch_sub(bytes, std::memory_order_relaxed); }

  std::int64_t live() const { return live_.load(std::memory_order_relaxed); }
  // The most since mark() or, without one, since the beginning.
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  void mark() { peak_.store(live(), std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> live_{0};
  std::atomic<std::int64_t> peak_{0};
};

}  // namespace trireme::train
