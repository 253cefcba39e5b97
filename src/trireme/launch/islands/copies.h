// Copies: the tape of a new leader from those that islands keep, after the leader's disk is lost.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "trireme/launch/islands/tape.h"

namespace trireme::islands {

struct Restored {
  std::int64_t entries = 0;
  Path from{};                             // the copy whose lines were taken
  std::vector<int> islands{};              // whose copies were given, of those on the tape
  int members = 0;                         // islands on the tape that have not left
  std::map<int, std::int64_t> no_codes{};  // by island: merges whose codes no copy has
  std::int64_t no_means = 0;               // merges whose mean no copy has
};

// Writes the tape into `directory`, which has none. Of the copies, that of the newest term counts, and of these the longest:
// whatever an island has applied is on a majority of the islands' disks, so copies of a majority contain it. Throws
// Error{kUsage} for fewer, Error{kData} for a damaged copy.
Restored restore(const std::vector<Path>& copies, const Path& directory);

}  // namespace trireme::islands
