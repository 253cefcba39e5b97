#include "memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>

namespace trireme::app {
namespace {

constexpr std::size_t kLarge = std::size_t{32} << 20;  // malloc's largest threshold for mapping
constexpr std::size_t kPage = std::size_t{2} << 20;

// Mapped blocks, free ones by size.
class Blocks {
 public:
  void* take(std::size_t bytes) {
    const std::size_t size = (bytes + kPage - 1) / kPage * kPage;
    std::lock_guard lock(mutex_);
    // A block up to an eighth too large will do.
    const auto found = free_.lower_bound(size);
    if (found != free_.end() && found->first <= size + size / 8) {
      void* const block = found->second;
      free_bytes_ -= found->first;
      used_.emplace(block, found->first);
      used_bytes_ += found->first;
      free_.erase(found);
      return block;
    }
    // What other sizes left behind does not pile up beside what is used.
    while (free_bytes_ > used_bytes_ / 4) release_one();
    void* const block =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) throw std::bad_alloc();
    ::madvise(block, size, MADV_HUGEPAGE);  // where the kernel has them
    used_.emplace(block, size);
    used_bytes_ += size;
    return block;
  }

  // False if it is none of these blocks.
  bool give(void* block) {
    std::lock_guard lock(mutex_);
    const auto found = used_.find(block);
    if (found == used_.end()) return false;
    free_.emplace(found->second, block);
    free_bytes_ += found->second;
    used_bytes_ -= found->second;
    used_.erase(found);
    return true;
  }

 private:
  void release_one() {
    const auto largest = std::prev(free_.end());
    ::munmap(largest->second, largest->first);
    free_bytes_ -= largest->first;
    free_.erase(largest);
  }

  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
  std::map<void*, std::size_t> used_;
  std::size_t free_bytes_ = 0, used_bytes_ = 0;
};

// Lives as long as the process: tensors are freed until its very end.
Blocks& blocks() {
  static Blocks* const all = new Blocks;
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
      if (!blocks().give(memory)) c10::GetDefaultCPUAllocator()->raw_deleter()(memory);
    };
  }

 private:
  c10::DataPtr take(std::size_t bytes) const {
    if (bytes < kLarge) return small_->allocate(bytes);
    void* const block = blocks().take(bytes);
    return {block, block, [](void* kept) { blocks().give(kept); }, c10::Device(c10::kCPU)};
  }

  c10::Allocator* small_;
};

}  // namespace

void keep_freed_memory() {
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(kLarge));
  constexpr int kNeverTrim = 1 << 30;
  ::mallopt(M_TRIM_THRESHOLD, kNeverTrim);
  static KeepingAllocator allocator(c10::GetDefaultCPUAllocator());
  c10::SetCPUAllocator(&allocator);
}

}  // namespace trireme::app
