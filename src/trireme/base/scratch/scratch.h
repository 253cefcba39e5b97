// Scratch: space outside a rank's working memory, for what a step does not need at once. It holds nothing that
// outlives the process.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "trireme/base/fs.h"

namespace trireme::scratch {

// Alignment of extents, and of memory that is moved without a copy.
inline constexpr std::int64_t kPage = 4096;

// A range of scratch space; `offset` is a multiple of kPage, `bytes` the requested size.
struct Extent {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// One transfer under way. Copyable; copies refer to the same transfer. The transfer uses its memory until wait() has
// returned or thrown, or its Scratch is destroyed. Before that do not free it; do not write the source of a write; do
// not touch the target of a read.
class Ticket {
 public:
  struct State;

  // An empty transfer, which is done.
  Ticket() = default;
  explicit Ticket(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Blocks until the transfer has ended; throws its Error (every time) if it failed.
  void wait() const;
  // True once wait() would not block.
  bool done() const;
  // When it ended, after wait(); of nothing: the clock's beginning.
  std::chrono::steady_clock::time_point ended() const;

 private:
  std::shared_ptr<State> state_;
};

// Bytes moved; seconds are those with at least one transfer of that direction under way.
struct Traffic {
  std::int64_t written = 0;
  std::int64_t read = 0;
  double write_s = 0;
  double read_s = 0;
};

// Used as: reserve everything, commit, then write and read. Transfers of one Scratch may overlap and end in any order:
// wait for a write before reading the same extent. May be called from any thread. The destructor finishes transfers
// under way and drops those that have not begun.
class Scratch {
 public:
  virtual ~Scratch() = default;

  // Space for `bytes`; before commit().
  virtual Extent reserve(std::int64_t bytes) = 0;
  // Makes all reserved space real, so that a full disk is found here and not in the middle of a run; once. Throws
  // Error{kData} with the place, the bytes needed and those free.
  virtual void commit() = 0;

  // Moves the first `bytes` of an extent, at most extent.bytes. Memory that begins at a multiple of kPage is moved
  // directly, other memory through pages of the Scratch's own, which costs a copy. The ticket throws Error{kData} that
  // names place, offset, bytes and cause.
  virtual Ticket write(const Extent& extent, const void* data, std::int64_t bytes) = 0;
  virtual Ticket read(const Extent& extent, void* data, std::int64_t bytes) = 0;

  // How it works, falls back included: "io_uring, O_DIRECT", "threads, page cache (O_DIRECT: Invalid argument)".
  virtual std::string describe() const = 0;
  virtual Traffic traffic() const = 0;
};

enum class Engine { kAuto, kIoUring, kThreads };
enum class Direct { kAuto, kOn, kOff };

class Kernel;

// kAuto takes the first choice that works, and describe() says so; a choice that is asked for is an error where it
// does not work.
struct FileOptions {
  Path directory;
  Engine engine = Engine::kAuto;
  Direct direct = Direct::kAuto;  // past the page cache
  int depth = 0;                  // requests under way at a time; 0: the engine's own
  Kernel* kernel = nullptr;  // tests: what answers in the kernel's place (base/scratch/kernel.h)
};

// One file without a name in an existing directory: it is gone when the process is, however that ends, and the
// directory may vanish meanwhile. Throws Error{kData} when it cannot be made there, Error{kUsage} for a choice that
// cannot be honoured.
std::unique_ptr<Scratch> open_file(const FileOptions& options);

// Host memory outside the working memory of a device; one thread copies.
std::unique_ptr<Scratch> open_memory();

}  // namespace trireme::scratch
