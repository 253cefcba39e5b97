// A directory that appears complete or not at all.
#pragma once

#include "trireme/base/fs.h"

namespace trireme::os {

// A new directory next to `out` that becomes `out`, or vanishes with this object.
class Staging {
 public:
  // Throws Error{kUsage} where it cannot be made.
  explicit Staging(const Path& out);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const Path& path() const { return path_; }
  // Takes the place of what is at `out`. Throws Error{kUsage} where that cannot be.
  void publish();

 private:
  Path out_;
  Path path_;
};

// `out` without a slash at its end, which must not exist or be an empty directory. Throws Error{kUsage}.
Path check_new_directory(const Path& out);

}  // namespace trireme::os
