#include "trireme/base/os/file_system.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

namespace trireme::os {
namespace {

int result(int returned) { return returned < 0 ? -errno : returned; }

class Mapped : public Contents {
 public:
  explicit Mapped(const Path& path) : file_(path, Symlinks::kRefuse) {}
  std::span<const std::byte> bytes() const override { return file_.bytes(); }
  void release() const override {
    if (const auto all = bytes(); !all.empty())
      ::madvise(const_cast<std::byte*>(all.data()), all.size(), MADV_DONTNEED);
  }

 private:
  MappedFile file_;
};

class Real : public FileSystem {
 public:
  int create(const Path& path) override {
    return result(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), offset);
    return written < 0 ? -errno : written;
  }
  int fsync(int file) override { return result(::fsync(file)); }
  int close(int file) override { return result(::close(file)); }

  int make_directory(const Path& path) override { return result(::mkdir(path.c_str(), 0755)); }
  int fsync_directory(const Path& path) override {
    const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) return -errno;
    const int synced = result(::fsync(directory));
    ::close(directory);
    return synced;
  }
  int rename(const Path& from, const Path& to) override {
    return result(::rename(from.c_str(), to.c_str()));
  }
  int unlink(const Path& path) override { return result(::unlink(path.c_str())); }
  int remove_directory(const Path& path) override { return result(::rmdir(path.c_str())); }

  Status status(const Path& path) override {
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) return {};
    if (S_ISREG(info.st_mode)) return {.kind = Kind::kFile, .size = info.st_size};
    return {.kind = S_ISDIR(info.st_mode) ? Kind::kDirectory : Kind::kOther};
  }
  int list(const Path& path, std::vector<std::string>& names) override {
    std::error_code cause;
    std::filesystem::directory_iterator it(path, cause);
    for (; !cause && it != std::filesystem::directory_iterator(); it.increment(cause))
      names.push_back(it->path().filename().string());
    return -cause.value();
  }
  std::unique_ptr<Contents> read(const Path& path) override {
    return std::make_unique<Mapped>(path);
  }
};

}  // namespace

FileSystem& real_file_system() {
  static Real real;
  return real;
}

}  // namespace trireme::os
