// HostMemory: a directory in this host's memory that one `trireme launch` owns: snapshots in it outlive ranks and go with
// their agent.
#pragma once

#include <cstdint>

#include "trireme/base/fs.h"
#include "trireme/base/os/descriptor.h"

namespace trireme::app {

class HostMemory {
 public:
  // Takes away those of this user's agents that were killed.
  static void remove_left(const Path& above = kAbove);

  // A new directory below `above`, for this user alone and locked as long as this lives. Throws Error{kUsage} where `above` is no memory or cannot be written.
  explicit HostMemory(const Path& above = kAbove);
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;

  const Path& path() const { return path_; }
  // Before this host's ranks of a generation start. If the run has continued without this host, the snapshots here are
  // obsolete: all are deleted unless this host was part of the generation before. Throws Error{kData}.
  void begin(std::uint64_t generation);

 private:
  static constexpr char kAbove[] = "/dev/shm";

  Path path_;
  os::Descriptor lock_;
  std::uint64_t generation_ = 0;
};

}  // namespace trireme::app
