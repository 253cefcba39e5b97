// Scratch space for tests: host memory, or a file without a name among the temporary ones, on disks that fail if asked.
#pragma once

#include <atomic>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/scratch/kernel.h"
#include "trireme/base/scratch/scratch.h"
#include "trireme/plan/recipe.h"

namespace trireme::harness {

inline std::unique_ptr<scratch::Scratch> open_scratch(plan::Tier tier) {
  if (tier == plan::Tier::kHost) return scratch::open_memory();
  return scratch::open_file({.directory = std::filesystem::temp_directory_path()});
}

// A disk whose requests end with `error`, an errno, from some moment on: found by whoever waits for the transfer.
class FailingDisk : public scratch::Kernel {
 public:
  explicit FailingDisk(int error) : error_(error) {}

  // After so many more requests.
  void fail_after(int good) { good_ = good; }

  std::int64_t completed(const scratch::Request&, std::int64_t result) override {
    return --good_ < 0 ? -error_ : result;
  }
  // Needs to outlive what it gives.
  std::unique_ptr<scratch::Scratch> open(scratch::Engine engine) {
    return scratch::open_file({.directory = std::filesystem::temp_directory_path(),
                               .engine = engine,
                               .direct = scratch::Direct::kOff,
                               .kernel = this});
  }

 private:
  const int error_;
  std::atomic<int> good_ = std::numeric_limits<int>::max();
};

// What is missing for a scratch file like this among the temporary ones, and where a test that needs it runs; empty: it
// runs here.
inline std::string missing(const scratch::FileOptions& options) {
  try {
    scratch::open_file(options);
    return {};
  } catch (const Error& error) {
    const char* where = options.engine == scratch::Engine::kIoUring
                            ? "a kernel that allows io_uring and a build with liburing"
                            : "a file system that takes O_DIRECT, such as ext4 or xfs in TMPDIR";
    return std::string(error.what()) + "; runs on " + where;
  }
}

inline std::string missing(scratch::Engine engine) {
  return missing({.directory = std::filesystem::temp_directory_path(), .engine = engine});
}

}  // namespace trireme::harness
