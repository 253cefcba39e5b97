#include "trireme/ckpt/snapshot.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include "trireme/comm/tensor_buffer.h"

namespace trireme::ckpt {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t bytes_of(const exec::StateSlice& slice) {
  return static_cast<std::size_t>(slice.count) * size_of(slice.type);
}

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

void Snapshot::take(const exec::Units& units, const std::vector<exec::StateSlice>& slices) {
  const at::NoGradGuard no_grad;
  std::size_t needed = 0;
  for (const exec::StateSlice& slice : slices) needed += aligned(bytes_of(slice));
  if (needed > size_) {
    memory_.reset();
    memory_ = std::make_unique_for_overwrite<std::byte[]>(needed);
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

}  // namespace trireme::ckpt
