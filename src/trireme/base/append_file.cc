#include "trireme/base/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"

namespace trireme {

AppendFile::AppendFile(Path path) : path_(std::move(path)) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0)
    fail(ErrorKind::kData, "{}: cannot write: {}", path_.string(), std::strerror(errno));
}

AppendFile::~AppendFile() {
  write();
  ::close(file_);
}

void AppendFile::add(std::string_view bytes) {
  constexpr std::size_t kMost = 64 << 20;
  waiting_ += bytes;
  if (!write() && waiting_.size() > kMost) finish();
}

void AppendFile::finish() {
  if (!write())
    fail(ErrorKind::kData, "{}: cannot write {} bytes: {}", path_.string(), waiting_.size(),
         std::strerror(errno));
}

bool AppendFile::write() {
  std::size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t count = ::write(file_, waiting_.data() + done, waiting_.size() - done);
    if (count > 0) done += static_cast<std::size_t>(count);
    if (count == 0) errno = ENOSPC;
    if (count <= 0 && errno != EINTR) break;
  }
  waiting_.erase(0, done);
  return waiting_.empty();
}

}  // namespace trireme
