#include "cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::app {

Path cache_directory() {
  for (const auto& [name, below] :
       {std::pair("XDG_CACHE_HOME", "trireme"), std::pair("HOME", ".cache/trireme")})
    if (const char* base = std::getenv(name); base && *base == '/') return Path(base) / below;
  fail(
      ErrorKind::kUsage,
      "neither XDG_CACHE_HOME nor HOME names a directory for prepared datasets; set one, or give a "
      "prepared dataset as data.path");
}

void make_in_cache(const Path& directory) {
  std::error_code cause;
  std::filesystem::create_directories(directory, cause);
  if (!cause && ::access(directory.c_str(), W_OK | X_OK) != 0)
    cause = {errno, std::generic_category()};
  if (cause)
    fail(
        ErrorKind::kUsage,
        "cannot write to the cache directory {}: {}. Set XDG_CACHE_HOME to a directory that can be "
        "written",
        directory.string(), cause.message());
}

FileLock::FileLock(const Path& path, Wait wait) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) fail(ErrorKind::kUsage, "cannot write {}: {}", path.string(), std::strerror(errno));
  int done;
  do done = ::flock(fd, LOCK_EX | (wait == Wait::kNo ? LOCK_NB : 0));
  while (done != 0 && errno == EINTR);
  if (done == 0)
    fd_ = fd;
  else
    ::close(fd);
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

void FileLock::keep_across_exec() { ::fcntl(fd_, F_SETFD, 0); }

}  // namespace trireme::app
