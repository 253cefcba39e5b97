// ThroughFiles: a file system that passes everything on to another.
#pragma once

#include "trireme/base/os/file_system.h"

namespace trireme::os {

// For those that change some calls.
class ThroughFiles : public FileSystem {
 public:
  // `inner` outlives it.
  explicit ThroughFiles(FileSystem& inner) : inner_(inner) {}
  // A copy constructor would be taken for wrapping one in another.
  ThroughFiles(const ThroughFiles&) = delete;
  ThroughFiles& operator=(const ThroughFiles&) = delete;

  int create(const Path& path) override { return inner_.create(path); }
  ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) override {
    return inner_.pwrite(file, bytes, offset);
  }
  int fsync(int file) override { return inner_.fsync(file); }
  int close(int file) override { return inner_.close(file); }
  int make_directory(const Path& path) override { return inner_.make_directory(path); }
  int fsync_directory(const Path& path) override { return inner_.fsync_directory(path); }
  int rename(const Path& from, const Path& to) override { return inner_.rename(from, to); }
  int unlink(const Path& path) override { return inner_.unlink(path); }
  int remove_directory(const Path& path) override { return inner_.remove_directory(path); }
  Status status(const Path& path) override { return inner_.status(path); }
  int list(const Path& path, std::vector<std::string>& names) override {
    return inner_.list(path, names);
  }
  std::unique_ptr<Contents> read(const Path& path) override { return inner_.read(path); }

 private:
  FileSystem& inner_;
};

}  // namespace trireme::os
