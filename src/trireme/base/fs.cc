#include "trireme/base/fs.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail_errno(const Path& path, const char* action) {
  fail(ErrorKind::kData, "{}: cannot {}: {}", path.string(), action, std::strerror(errno));
}

class File {
 public:
  File(const Path& path, int flags, int mode = 0) : path_(path) {
    do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, mode);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0 && errno == ELOOP && (flags & O_NOFOLLOW) != 0)
      fail(ErrorKind::kData,
           "{}: is a symbolic link, not a regular file; put the file itself there", path.string());
    if (fd_ < 0) fail_errno(path, (flags & O_CREAT) ? "create" : "open");
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  int fd() const { return fd_; }

  std::size_t regular_size() const {
    struct stat info {};
    if (::fstat(fd_, &info) != 0) fail_errno(path_, "stat");
    if (!S_ISREG(info.st_mode)) fail(ErrorKind::kData, "{}: is not a regular file", path_.string());
    return static_cast<std::size_t>(info.st_size);
  }

  void write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_errno(path_, "write");
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  void sync_and_close() {
    if (::fsync(fd_) != 0) fail_errno(path_, "fsync");
    if (::close(std::exchange(fd_, -1)) != 0) fail_errno(path_, "close");
  }

 private:
  Path path_;
  int fd_ = -1;
};

}  // namespace

std::string read_file(const Path& path, std::size_t max_bytes) {
  File file(path, O_RDONLY | O_NONBLOCK);
  const std::size_t size = file.regular_size();
  if (size > max_bytes)
    fail(ErrorKind::kData, "{}: has {} bytes, but a file of this kind may have at most {}",
         path.string(), size, max_bytes);
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file.fd(), bytes.data() + done, size - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_errno(path, "read");
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

void write_file_synced(const Path& path, std::string_view bytes) {
  File file(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0644);
  file.write_all(bytes);
  file.sync_and_close();
}

void replace_file(const Path& path, std::string_view bytes) {
  Path temporary = path;
  temporary += fmt::format(".tmp-{}", ::getpid());
  try {
    write_file_synced(temporary, bytes);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int cause = errno;
    ::unlink(temporary.c_str());
    errno = cause;
    fail_errno(path, "replace");
  }
  fsync_directory(path.has_parent_path() ? path.parent_path() : Path("."));
}

void fsync_directory(const Path& directory) {
  File file(directory, O_RDONLY | O_DIRECTORY);
  file.sync_and_close();
}

void make_directories(const Path& directory) {
  std::error_code cause;
  std::filesystem::create_directories(directory, cause);
  if (cause)
    fail(ErrorKind::kUsage, "cannot create directory {}: {}; choose another with --out",
         directory.string(), cause.message());
}

MappedFile::MappedFile(const Path& path, Symlinks symlinks) {
  const File file(path, O_RDONLY | O_NONBLOCK | (symlinks == Symlinks::kRefuse ? O_NOFOLLOW : 0));
  size_ = file.regular_size();
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd(), 0);
  if (mapped == MAP_FAILED) fail_errno(path, "map");
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace trireme
