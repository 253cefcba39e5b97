// How much memory LibTorch's CPU tensors hold.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace trireme::harness {

// Memory that is counted while it lives. LibTorch 2.x has the second allocate, 1.13 the first.
class CountingAllocator : public c10::Allocator {
 public:
  static std::int64_t live_bytes() { return live_; }
  // The most since the last forget_peak().
  static std::int64_t peak_bytes() { return peak_; }
  static void forget_peak() { peak_ = live_.load(); }
  c10::DataPtr allocate(std::size_t bytes) const { return make(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return make(bytes); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, std::size_t count) const {
    std::memcpy(to, from, count);
  }

 private:
  static inline std::atomic<std::int64_t> live_ = 0;
  static inline std::atomic<std::int64_t> peak_ = 0;
  static constexpr std::size_t kHead = 64;  // bytes before the memory, which hold its size

  static c10::DataPtr make(std::size_t bytes) {
    char* const head =
        static_cast<char*>(std::aligned_alloc(kHead, (bytes + 2 * kHead - 1) / kHead * kHead));
    std::memcpy(head, &bytes, sizeof bytes);
    const std::int64_t now = live_ += static_cast<std::int64_t>(bytes);
    for (std::int64_t peak = peak_; peak < now && !peak_.compare_exchange_weak(peak, now);)
      continue;
    return {head + kHead, head + kHead, &release, c10::Device(c10::DeviceType::CPU)};
  }
  static void release(void* memory) {
    char* const head = static_cast<char*>(memory) - kHead;
    std::size_t bytes = 0;
    std::memcpy(&bytes, head, sizeof bytes);
    live_ -= static_cast<std::int64_t>(bytes);
    std::free(head);
  }
};

// Counts all tensors made while it lives; memory from before is not its.
class CountAllocations {
 public:
  CountAllocations() : before_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(&counting_, 100); }
  ~CountAllocations() { c10::SetCPUAllocator(before_, 100); }
  std::int64_t live_bytes() const { return CountingAllocator::live_bytes(); }
  // The most that `work` holds beside what is there already.
  template <typename Work>
  std::int64_t peak_of(const Work& work) const {
    const std::int64_t before = live_bytes();
    CountingAllocator::forget_peak();
    work();
    return CountingAllocator::peak_bytes() - before;
  }

 private:
  CountingAllocator counting_;
  c10::Allocator* before_;
};

}  // namespace trireme::harness
