#include "host_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/launch/elastic/launch.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

std::string prefix() { return fmt::format("trireme-memory-{}-", ::geteuid()); }

// Not locked where another holds it, or where it is not this user's own.
os::Descriptor lock(const Path& directory) {
  os::Descriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!opened.open() || ::fstat(opened.get(), &status) != 0 || status.st_uid != ::geteuid() ||
      ::flock(opened.get(), LOCK_EX | LOCK_NB) != 0)
    opened.close();
  return opened;
}

// Whether what was locked still has this name: another launch may have taken it for a left one before it was locked.
bool is_at(const os::Descriptor& locked, const Path& directory) {
  struct stat here {
  }, there{};
  return ::fstat(locked.get(), &here) == 0 && ::lstat(directory.c_str(), &there) == 0 &&
         here.st_dev == there.st_dev && here.st_ino == there.st_ino;
}

}  // namespace

void HostMemory::remove_left(const Path& above) {
  std::error_code error;  // what ranks still write there, dying, the next launch takes
  for (fs::directory_iterator entry(above, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix())) continue;
    const os::Descriptor left = lock(entry->path());
    std::error_code ignored;
    if (left.open()) fs::remove_all(entry->path(), ignored);
  }
}

HostMemory::HostMemory(const Path& above) {
  struct statfs system {};
  if (::statfs(above.c_str(), &system) != 0 ||
      (system.f_type != TMPFS_MAGIC && system.f_type != RAMFS_MAGIC))
    fail(ErrorKind::kUsage,
         "{}: is not a file system in memory, which checkpoint.memory_every needs; mount a tmpfs "
         "there, or set memory_every=0",
         above.string());
  constexpr int kTries = 10;  // another launch may take each for a left one
  for (int attempt = 0; !lock_.open(); ++attempt) {
    if (attempt == kTries)
      fail(ErrorKind::kUsage,
           "cannot lock {}: {}; snapshots in memory (checkpoint.memory_every) lie there",
           path_.string(), std::strerror(errno));
    path_ = above / (prefix() + elastic::fresh_name());
    if (::mkdir(path_.c_str(), 0700) != 0)
      fail(ErrorKind::kUsage,
           "cannot make {}: {}; snapshots in memory (checkpoint.memory_every) lie there",
           path_.string(), std::strerror(errno));
    lock_ = lock(path_);
    if (lock_.open() && !is_at(lock_, path_)) lock_.close();
  }
}

HostMemory::~HostMemory() {
  std::error_code ignored;  // the next launch tries again
  fs::remove_all(path_, ignored);
}

void HostMemory::begin(std::uint64_t generation) {
  // What cannot be removed or made ranks meet as snapshots that fail: that ends no run.
  std::error_code ignored;
  if (generation != generation_ + 1)
    for (fs::directory_iterator entry(path_, ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
      std::error_code left;
      fs::remove_all(entry->path(), left);
    }
  ::mkdir(path_.c_str(), 0700);  // where somebody has removed it
  generation_ = generation;
}

}  // namespace trireme::app
