// Directories and locks of the front: where it keeps what it made once, and who may write where.
#pragma once

#include <string>

#include "trireme/base/fs.h"

namespace trireme::app {

// ${XDG_CACHE_HOME:-$HOME/.cache}/trireme. Error{kUsage} when neither is set.
Path cache_directory();
// Creates a directory in it, to be written to. Error{kUsage} where that cannot be.
void make_in_cache(const Path& directory);

// An exclusive lock on a file, held until destruction (or, when kept, until the process image that
// replaces this one ends).
class FileLock {
 public:
  enum class Wait { kNo, kYes };
  // Creates the file. locked() is false when another process holds it and `wait` is kNo.
  // Error{kUsage} when the file cannot be created.
  FileLock(const Path& path, Wait wait);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;

  bool locked() const { return fd_ >= 0; }
  // Lets the lock survive exec.
  void keep_across_exec();

 private:
  int fd_ = -1;
};

}  // namespace trireme::app
