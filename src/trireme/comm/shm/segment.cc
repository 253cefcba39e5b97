#include "trireme/comm/shm/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

[[noreturn]] void refused(const std::string& what) {
  fail(ErrorKind::kUsage,
       "no shared memory with the other ranks of this host: {}: {}; let them talk over Gloo", what,
       std::strerror(errno));
}

struct flock lock_of(int place) {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = place;
  lock.l_len = 1;
  return lock;
}

}  // namespace

Segment::Segment(std::size_t bytes) : fd_(::memfd_create("trireme", MFD_CLOEXEC)), bytes_(bytes) {
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
    refused(fmt::format("memfd of {} bytes", bytes));
  map();
}

Segment::Segment(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) refused(path);
  bytes_ = static_cast<std::size_t>(status.st_size);
  map();
}

Segment::~Segment() {
  ::munmap(data_, bytes_);
  ::close(fd_);
}

void Segment::map() {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) refused(fmt::format("mmap of {} bytes", bytes_));
  data_ = static_cast<std::byte*>(memory);
}

// Locks of the open file, not of the process, because ranks may be threads of one process. The kernel drops them also
// for a process that has ended but is not yet reaped.
void Segment::take(int place) {
  struct flock lock = lock_of(place);
  if (::fcntl(fd_, F_OFD_SETLK, &lock) != 0) refused(fmt::format("lock {}", place));
}

bool Segment::taken(int place) const {
  struct flock lock = lock_of(place);
  if (::fcntl(fd_, F_OFD_GETLK, &lock) != 0) refused(fmt::format("lock {}", place));
  return lock.l_type != F_UNLCK;
}

}  // namespace trireme::comm
