#include "memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "arena.h"

namespace trireme::app {
namespace {

using train::TensorMemory;

// Malloc gets little, because its free memory fragments where sizes change from step to step.
constexpr std::size_t kLargeBlock = std::size_t{16} << 10;

// Lives as long as the process: tensors are freed until its very end.
Arena& arena() {
  static Arena* const all = new Arena;
  return *all;
}

// Null: the process's count.
thread_local TensorMemory* charged = nullptr;

TensorMemory& of_process() {
  static TensorMemory all;
  return all;
}

// Before each small block.
struct alignas(64) Head {
  static constexpr std::uint64_t kOurs = 0x74726972656d6521;
  std::uint64_t mark;
  TensorMemory* count;
  std::size_t bytes;
};

Head* head_of(void* block) { return static_cast<Head*>(block) - 1; }

// Whether it is one.
bool give_large(void* block) {
  const std::optional<Arena::Block> given = arena().give(block);
  if (given)
    static_cast<TensorMemory*>(given->owner)->give(static_cast<std::int64_t>(given->bytes));
  return given.has_value();
}

void give_small(void* block) {
  Head* const head = head_of(block);
  head->count->give(static_cast<std::int64_t>(head->bytes));
  head->mark = 0;
  std::free(head);
}

class KeepingAllocator final : public c10::Allocator {
 public:
  // LibTorch made allocate() mutable in 2.x, and asks for copy_data(): what its version lacks overrides nothing.
  c10::DataPtr allocate(std::size_t bytes) const { return take(bytes); }
  c10::DataPtr allocate(std::size_t bytes) { return take(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const {
    std::memcpy(to, from, bytes);
  }

  // Of whatever kind the block is, those from before this allocator included.
  c10::DeleterFnPtr raw_deleter() const override {
    return [](void* block) {
      if (block == nullptr || give_large(block)) return;
      if (head_of(block)->mark == Head::kOurs) return give_small(block);
      c10::GetDefaultCPUAllocator()->raw_deleter()(block);
    };
  }

 private:
  static c10::DataPtr take(std::size_t bytes) {
    TensorMemory& count = charged_here();
    count.take(static_cast<std::int64_t>(bytes));
    if (bytes >= kLargeBlock) {
      void* const block = arena().take(bytes, &count);
      return {block, block, [](void* taken) { give_large(taken); }, c10::Device(c10::kCPU)};
    }
    constexpr std::size_t kUnit = alignof(Head);
    void* const head =
        std::aligned_alloc(kUnit, sizeof(Head) + (bytes + kUnit - 1) / kUnit * kUnit);
    if (head == nullptr) throw std::bad_alloc();
    void* const block = new (head) Head{.mark = Head::kOurs, .count = &count, .bytes = bytes} + 1;
    return {block, block, &give_small, c10::Device(c10::kCPU)};
  }
};

}  // namespace

void keep_freed_memory() {
  constexpr int kLargestThreshold = 32 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  constexpr int kNeverTrim = 1 << 30;
  ::mallopt(M_TRIM_THRESHOLD, kNeverTrim);
  static KeepingAllocator allocator;
  c10::SetCPUAllocator(&allocator);
}

std::size_t held_by_large_tensors() { return arena().extent(); }

TensorMemory& charged_here() { return charged != nullptr ? *charged : of_process(); }

ChargeAnew::ChargeAnew() : before_(std::exchange(charged, new TensorMemory)) {}
ChargeAnew::~ChargeAnew() { charged = before_; }

}  // namespace trireme::app
