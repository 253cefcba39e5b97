// Flat memory that is counted, and tensors whose bytes come and go. Only this file touches storages.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstdint>
#include <vector>

#include "trireme/base/cpu.h"
#include "trireme/base/dtype.h"
#include "trireme/comm/group.h"

namespace trireme::exec {

// Whether our own loops may touch memory there, not only LibTorch's operators.
inline bool on_host(at::Device device) { return device.is_cpu() && has_own_loops(); }

// Where a set of Flats lies, and the bytes that it holds: the measured side of the plan's memory account.
struct MemoryCount {
  at::Device device = at::kCPU;
  std::int64_t live = 0;
  std::int64_t peak = 0;
  std::int64_t host = 0;  // additional host memory for offloaded state
};

// Owned contiguous memory of `count` elements. Moves; an empty Flat holds nothing.
class Flat {
 public:
  Flat() = default;
  // Bytes are undefined. Memory in whole pages is moved to a disk and back without a copy.
  Flat(MemoryCount& memory, std::int64_t count, DType type, bool pages = false);
  Flat(Flat&& other) noexcept;
  Flat& operator=(Flat&& other) noexcept;
  ~Flat();

  explicit operator bool() const { return memory_ != nullptr; }
  std::int64_t count() const { return count_; }
  DType type() const { return type_; }
  at::Device device() const { return pointer_.device(); }
  bool on_host() const { return exec::on_host(device()); }
  std::int64_t bytes() const { return count_ * static_cast<std::int64_t>(size_of(type_)); }
  void* data() const { return data_; }
  void* at(std::int64_t element) const {
    return static_cast<std::byte*>(data_) + element * static_cast<std::int64_t>(size_of(type_));
  }

  void zero();
  comm::Buffer buffer() const { return {data(), count_, type_}; }
  // A tensor over [begin, begin + count) that does not own the memory.
  at::Tensor tensor(std::int64_t begin, std::int64_t count) const;

 private:
  MemoryCount* memory_ = nullptr;
  c10::DataPtr pointer_;
  void* data_ = nullptr;
  std::int64_t count_ = 0;
  DType type_ = DType::kF32;
};

// Blocks of `block` elements that hold `count`, the last perhaps in part.
inline std::int64_t blocks(std::int64_t count, std::int64_t block) {
  return (count + block - 1) / block;
}

struct FlatShape {
  std::int64_t count = 0;
  DType type = DType::kF32;
};

// A flat tensor without memory of its own. Views made of it stay valid objects for ever; their bytes
// may be touched only between attach and detach. Nothing here goes through autograd, so version
// counters do not move: releasing bytes between forward and backward and bringing the same ones back
// is sound.
class Window {
 public:
  Window() = default;
  Window(std::int64_t count, DType type, at::Device device);

  // Made while no memory is attached; the shape's elements start at `offset`.
  at::Tensor view(std::int64_t offset, const std::vector<std::int64_t>& shape) const;
  void attach(const Flat& memory);
  void detach();

 private:
  at::Tensor tensor_;
};

}  // namespace trireme::exec
