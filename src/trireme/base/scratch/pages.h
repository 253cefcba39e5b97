// Pages: memory that direct I/O may use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "trireme/base/scratch/scratch.h"

namespace trireme::scratch {

constexpr std::int64_t whole_pages(std::int64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

inline bool on_page(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(kPage) == 0;
}

// Owned memory that begins and ends at multiples of kPage; bytes are undefined.
class Pages {
 public:
  Pages() = default;
  explicit Pages(std::int64_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(
            static_cast<std::size_t>(kPage), static_cast<std::size_t>(whole_pages(bytes))))),
        bytes_(bytes) {
    if (data_ == nullptr) throw std::bad_alloc();
  }

  std::byte* data() const { return data_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::int64_t bytes_ = 0;
};

}  // namespace trireme::scratch
