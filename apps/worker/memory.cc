#include "memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <cstring>

#include "arena.h"

namespace trireme::app {
namespace {

constexpr std::size_t kLarge = std::size_t{128} << 10;

// Lives as long as the process: tensors are freed until its very end.
Arena& arena() {
  static Arena* const all = new Arena;
  return *all;
}

class KeepingAllocator final : public c10::Allocator {
 public:
  explicit KeepingAllocator(c10::Allocator* small) : small_(small) {}

  // LibTorch made allocate() mutable in 2.x, and asks for copy_data(): what its version lacks overrides nothing.
  c10::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* memory) {
      if (!arena().give(memory)) c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
    };
  }

 private:
  c10::DataPtr take(std::size_t bytes) const {
    if (bytes < kLarge) return small_->allocate(bytes);
    void* const block = arena().take(bytes);
    return {block, block, [](void* taken) { arena().give(taken); }, c10::Device(c10::kCPU)};
  }

  c10::Allocator* small_;
};

}  // namespace

void keep_freed_memory() {
  constexpr int kLargestThreshold = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  constexpr int kNeverTrim = 1 << 30;
  ::mallopt(M_TRIM_THRESHOLD, kNeverTrim);
  static KeepingAllocator allocator(c10::GetDefaultCPUAllocator());
  c10::SetCPUAllocator(&allocator);
}

}  // namespace trireme::app
