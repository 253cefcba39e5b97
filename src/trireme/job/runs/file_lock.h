// Locks on files among processes, which decide which one may write.
#pragma once

#include "trireme/base/fs.h"

namespace trireme::runs {

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

}  // namespace trireme::runs
