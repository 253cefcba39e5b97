#include "trireme/exec/units/flat.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/scratch/scratch.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::exec {

namespace {

constexpr std::size_t kPage = scratch::kPage;

std::size_t whole_pages(std::size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Flat::Flat(MemoryCount& memory, std::int64_t count, DType type, bool pages)
    : memory_(&memory), count_(count), type_(type) {
  if (memory.device.is_cuda()) at::globalContext().lazyInitCUDA();
  const auto size = static_cast<std::size_t>(bytes());
  pointer_ =
      c10::GetAllocator(memory.device.type())->allocate(pages ? whole_pages(size) + kPage : size);
  data_ = pointer_.get();
  if (pages) data_ = reinterpret_cast<void*>(whole_pages(reinterpret_cast<std::uintptr_t>(data_)));
  memory_->live += bytes();
  memory_->peak = std::max(memory_->peak, memory_->live);
}

Flat::Flat(Flat&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      pointer_(std::move(other.pointer_)),
      data_(std::exchange(other.data_, nullptr)),
      count_(std::exchange(other.count_, 0)),
      type_(other.type_) {}

Flat& Flat::operator=(Flat&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(pointer_, other.pointer_);
  std::swap(data_, other.data_);
  std::swap(count_, other.count_);
  std::swap(type_, other.type_);
  Flat dropped(std::move(other));
  return *this;
}

Flat::~Flat() {
  if (memory_ != nullptr) memory_->live -= bytes();
}

void Flat::zero() {
  if (!on_host()) {
    tensor(0, count_).zero_();
    return;
  }
  std::memset(data(), 0, static_cast<std::size_t>(bytes()));
}

at::Tensor Flat::tensor(std::int64_t begin, std::int64_t count) const {
  return at::from_blob(at(begin), {count},
                       at::TensorOptions().dtype(comm::scalar_type(type_)).device(device()));
}

Window::Window(std::int64_t count, DType type, at::Device device)
    : tensor_(
          at::empty({count}, at::TensorOptions().dtype(comm::scalar_type(type)).device(device))) {}

at::Tensor Window::view(std::int64_t offset, const std::vector<std::int64_t>& shape) const {
  std::int64_t count = 1;
  for (std::int64_t size : shape) count *= size;
  // detach: an own version counter and a leaf, though bytes are shared with its neighbours.
  return tensor_.narrow(0, offset, count).view(shape).detach();
}

void Window::attach(const Flat& memory) {
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(memory.data(), memory.device()));
  storage->set_nbytes(static_cast<std::size_t>(memory.bytes()));
}

void Window::detach() {
  c10::StorageImpl* storage = tensor_.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::DataPtr(nullptr, tensor_.device()));
  storage->set_nbytes(0);
}

}  // namespace trireme::exec
