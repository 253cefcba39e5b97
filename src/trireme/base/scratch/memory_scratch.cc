#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/base/free_memory.h"
#include "trireme/base/scratch/space.h"

namespace trireme::scratch {
namespace {

class MemoryScratch : public Space {
 public:
  MemoryScratch() {
    carry_with(make_threads([this](const Request& request) { return copy(request); },
                            {.name = "host memory"}, 1));
  }
  ~MemoryScratch() override {
    end_transfers();
    if (memory_ != nullptr) ::munmap(memory_, bytes_);
  }

  std::string describe() const override { return "host memory"; }

 private:
  void make_real(std::int64_t bytes) override {
    const std::optional<std::int64_t> available = free_memory();
    if (available && *available < bytes)
      fail(ErrorKind::kData,
           "host memory: scratch space needs {} bytes, {} are free; offload less, or to disk",
           bytes, *available);
    bytes_ = static_cast<std::size_t>(bytes);
    void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
      fail(ErrorKind::kData,
           "host memory: scratch space needs {} bytes: {}; offload less, or to disk", bytes,
           std::strerror(errno));
    memory_ = static_cast<std::byte*>(memory);
  }

  std::int64_t copy(const Request& request) {
    std::byte* const here = memory_ + request.offset;
    const bool writing = request.direction == Direction::kWrite;
    std::memcpy(writing ? here : request.data, writing ? request.data : here,
                static_cast<std::size_t>(request.bytes));
    return request.bytes;
  }

  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<Scratch> open_memory() { return std::make_unique<MemoryScratch>(); }

}  // namespace trireme::scratch
