// FileSystem: what lasting files are made of and read through, so that tests can lose power, fill disks and die
// between any two calls.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/fs.h"

namespace trireme::os {

// A whole file as it was when it was opened; bytes() is valid as long as this lives.
class Contents {
 public:
  virtual ~Contents() = default;
  virtual std::span<const std::byte> bytes() const = 0;
  // Bytes that were read leave the process's memory where a file can be read again; they stay valid.
  virtual void release() const {}
};

enum class Kind { kAbsent, kFile, kDirectory, kOther };

// State of a name itself: a symbolic link is kOther, wherever it points.
struct Status {
  Kind kind = Kind::kAbsent;
  std::int64_t size = 0;  // bytes, of a file
};

// Functions that write return the result of the system call of their name, -errno if it fails. Signals may cut them
// short, and they may write less than requested. Thread-safe. durable.h builds on it.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // A new file, for writing; -EEXIST where the name is taken, by a symbolic link too. Gives a handle, >= 0.
  virtual int create(const Path& path) = 0;
  virtual ssize_t pwrite(int file, std::span<const std::byte> bytes, std::int64_t offset) = 0;
  virtual int fsync(int file) = 0;
  virtual int close(int file) = 0;

  virtual int make_directory(const Path& path) = 0;
  // Makes the names in it durable.
  virtual int fsync_directory(const Path& path) = 0;
  // Both names in one file system.
  virtual int rename(const Path& from, const Path& to) = 0;
  virtual int unlink(const Path& path) = 0;
  virtual int remove_directory(const Path& path) = 0;

  virtual Status status(const Path& path) = 0;
  // Names in a directory, in any order, into `names`.
  virtual int list(const Path& path, std::vector<std::string>& names) = 0;
  // Refuses what is no regular file, symbolic links included, without waiting for it. Throws Error{kData}.
  virtual std::unique_ptr<Contents> read(const Path& path) = 0;
};

// The machine's own.
FileSystem& real_file_system();

}  // namespace trireme::os
