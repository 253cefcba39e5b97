// Fault: what is to go wrong on purpose, and where, as text: "rank=1 step=41 line=7: kill; fs.fsync=3: error=EIO".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/launch/watch/area.h"

namespace trireme::faults {

// Calls of an os::FileSystem that change something.
enum class DiskCall {
  kAny,
  kCreate,
  kWrite,
  kFsync,
  kClose,
  kMakeDirectory,
  kSyncDirectory,
  kRename,
  kUnlink,
  kRemoveDirectory
};

enum class Action {
  kKill,
  kStop,
  kTerm,
  kAbort,
  kExit,   // amount: the code
  kDelay,  // amount: milliseconds
  kThrow,
  // For a disk call alone.
  kError,  // it fails; amount: the errno
  kShort,  // a write takes `amount` bytes of those it is given
  kTorn,   // as kShort, and the process is killed
  kLie,    // a write says that it took all, and took nothing
  kFlip    // a write takes another bit than it was given
};

// It happens at the first moment at which everything holds that is given here.
struct Fault {
  std::optional<int> rank{};
  std::optional<std::uint64_t> generation{};
  bool each_generation = false;  // again in every one; else once in the life of a run
  std::string start{};           // a stage of the start: process store ranks links mesh
  std::optional<watch::Phase> phase{};
  std::optional<std::int64_t> step{};
  std::optional<int> line{};             // of the plan's list
  std::string what{};                    // a line's verb, or an operation's kind
  std::string group{};                   // of the operation
  std::optional<std::uint64_t> op{};     // its number within the group, as it begins
  std::optional<std::uint64_t> ended{};  // or when it has ended
  std::optional<std::uint64_t> chunk{};  // or at this one of the chunks that it moves here
  std::optional<DiskCall> call{};
  bool in_memory = false;  // the call is of snapshots in memory, not of checkpoints
  std::uint64_t nth = 1;   // of the disk calls for which the rest holds
  Action action = Action::kKill;
  std::int64_t amount = 0;
  bool operator==(const Fault&) const = default;
};

// Throws Error{kUsage} with the place, the value seen, and the accepted values.
std::vector<Fault> parse(std::string_view text);
// Parses as the same.
std::string print(const Fault& fault);

}  // namespace trireme::faults
