#include "trireme/job/runs/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::runs {

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

}  // namespace trireme::runs
