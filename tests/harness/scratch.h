// Scratch space for tests: host memory, or a file without a name among the temporary ones, on disks that fail if asked.
#pragma once

#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "trireme/base/error.h"
#include "trireme/io/kernel.h"
#include "trireme/io/scratch.h"
#include "trireme/plan/recipe.h"

namespace trireme::harness {

inline std::unique_ptr<io::Scratch> open_scratch(plan::Tier tier) {
  if (tier == plan::Tier::kHost) return io::open_memory();
  return io::open_file({.directory = std::filesystem::temp_directory_path()});
}

// A disk whose requests end with `error`, an errno, from some moment on: found by whoever waits for the transfer.
class FailingDisk : public io::Kernel {
 public:
  explicit FailingDisk(int error) : error_(error) {}

  // After so many more requests.
  void fail_after(int good) { good_ = good; }

  std::int64_t completed(const io::Request&, std::int64_t result) override {
    return --good_ < 0 ? -error_ : result;
  }
  // Needs to outlive what it gives.
  std::unique_ptr<io::Scratch> open(io::Engine engine) {
    return io::open_file({.directory = std::filesystem::temp_directory_path(),
                          .engine = engine,
                          .direct = io::Direct::kOff,
                          .kernel = this});
  }

 private:
  const int error_;
  std::atomic<int> good_ = std::numeric_limits<int>::max();
};

// What is missing for a scratch file like this among the temporary ones, and where a test that needs it runs; empty: it
// runs here.
inline std::string missing(const io::FileOptions& options) {
  try {
    io::open_file(options);
    return {};
  } catch (const Error& error) {
    const char* where = options.engine == io::Engine::kIoUring
                            ? "a kernel that allows io_uring and a build with liburing"
                            : "a file system that takes O_DIRECT, such as ext4 or xfs in TMPDIR";
    return std::string(error.what()) + "; runs on " + where;
  }
}

inline std::string missing(io::Engine engine) {
  return missing({.directory = std::filesystem::temp_directory_path(), .engine = engine});
}

}  // namespace trireme::harness
