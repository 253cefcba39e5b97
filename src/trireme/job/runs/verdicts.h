// What commands found in files whose every byte they read, kept for as long as the files are not changed.
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

  // What was found in exactly these files: empty text where every byte was as written. Nothing where they were changed
  // since, or never read on this machine.
  std::optional<std::string> verdict() const;
  // Keeps what was found now in the cache directory; where that is not possible the bytes are read again next time.
  void keep(const std::string& problem) const;

 private:
  Path entry_;         // in the cache; empty: there is no cache
  std::string facts_;  // empty: changed too recently to be told from a change to come
};

}  // namespace trireme::runs
