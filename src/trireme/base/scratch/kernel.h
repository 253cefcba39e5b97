// Kernel: the system calls of a scratch file, in one place, so that tests can simulate a failing disk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/fs.h"

struct io_uring;

namespace trireme::scratch {

enum class Direction { kWrite, kRead };

// Bytes [offset, offset + bytes) of the file, from or to memory.
struct Request {
  Direction direction = Direction::kWrite;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
  std::int64_t offset = 0;
};

// Results are those of the system calls, with -errno for failure. Called from several threads.
class Kernel {
 public:
  virtual ~Kernel() = default;

  // A new file without a name, open for reading and writing.
  virtual int open_unnamed(const Path& directory);
  // Takes the file past the page cache, where its file system can do that.
  virtual int set_direct(int file);
  // Makes bytes [0, bytes) of the file exist on disk, or none.
  virtual int allocate(int file, std::int64_t bytes);
  virtual std::int64_t free_bytes(int file);
  virtual std::int64_t transfer(int file, const Request& request);
  // Only where liburing was there to build with.
  virtual int open_ring(unsigned entries, ::io_uring* ring);
  // True result of a transfer that reported `result`, also for the ring.
  virtual std::int64_t completed(const Request& request, std::int64_t result);
};

}  // namespace trireme::scratch
