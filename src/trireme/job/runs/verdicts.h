// Results of commands that read every byte of files, kept for as long as the files do not change.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/job/runs/cache.h"

namespace trireme::runs {

// Files that are checked together, such as those of a checkpoint. Their sizes, times and inodes are looked at when it is
// made, so make it before the bytes are read.
class CheckedFiles {
 public:
  // `name` is what they are together: their directory.
  CheckedFiles(const FindCache& cache, const Path& name, std::span<const Path> files);

  // The result for exactly these files: empty text if every byte was as written. Nothing if they were changed since, or
  // never read on this machine.
  std::optional<std::string> verdict() const;
  // Keeps what was found now in the cache directory; where that is not possible the bytes are read again next time.
  void keep(const std::string& problem) const;

 private:
  Path entry_;         // in the cache; empty: there is no cache
  std::string facts_;  // empty: changed too recently to be distinguished from a change to come
};

}  // namespace trireme::runs
