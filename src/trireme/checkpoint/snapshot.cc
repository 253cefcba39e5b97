#include "trireme/checkpoint/snapshot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>
#include <sys/mman.h>

#include <new>

#include "trireme/comm/tensor_buffer.h"

namespace trireme::checkpoint {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t bytes_of(const exec::StateSlice& slice) {
  return static_cast<std::size_t>(slice.count) * size_of(slice.type);
}

std::size_t aligned(std::size_t bytes, std::size_t to = kAlignment) {
  return (bytes + to - 1) / to * to;
}

// In huge pages where the system has them: the first copy would else take as long again for its page faults.
std::byte* allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(kHugePage, aligned(bytes, kHugePage));
  if (memory == nullptr) throw std::bad_alloc();
  ::madvise(memory, aligned(bytes, kHugePage),
            MADV_HUGEPAGE);  // advice: what comes of it is the system's
  return static_cast<std::byte*>(memory);
}

}  // namespace

void Snapshot::take(const exec::Units& units, const std::vector<exec::StateSlice>& slices) {
  const at::NoGradGuard no_grad;
  std::size_t needed = 0;
  for (const exec::StateSlice& slice : slices) needed += aligned(bytes_of(slice));
  if (needed > size_) {
    memory_.reset();
    memory_.reset(allocate(needed));
    size_ = needed;
  }
  parts_.clear();
  std::size_t at = 0;
  for (const exec::StateSlice& slice : slices) {
    parts_.push_back({memory_.get() + at, bytes_of(slice)});
    at += aligned(bytes_of(slice));
    at::from_blob(parts_.back().data(), {slice.count}, comm::scalar_type(slice.type))
        .copy_(units.read(slice));
  }
}

}  // namespace trireme::checkpoint
