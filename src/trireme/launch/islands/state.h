// State: a checkpoint that an island hands to another, as one row of bytes that travels in chunks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/descriptor.h"
#include "trireme/formats/manifest.h"
#include "trireme/launch/islands/messages.h"

namespace trireme::islands {

// The state of a checkpoint of an island. Throws Error{kData} for a checkpoint that is damaged or of no island.
State state_of(const Path& checkpoint);

// Digest of the tensors of a checkpoint: equal for the runs of a replay, unlike that of its manifest, which has paths.
std::uint64_t digest_of(const formats::Manifest& manifest);

// The files of a State in a directory, open from the beginning, so that they may be deleted.
class StateFiles {
 public:
  enum class For { kReading, kWriting };
  // Throws Error{kData} where a file is missing, or cannot be written.
  StateFiles(const Path& directory, State about, For use);
  const State& about() const { return about_; }

  // Frame of a chunk.
  std::string piece(std::int64_t number) const;
  // Chunks that are there, in order. Those of a transfer that was cut count; a digest of all bytes finds damage.
  std::int64_t pieces() const { return pieces_; }
  bool complete() const { return pieces_ == pieces_of(about_.bytes()); }
  // Takes the next chunk's frame. Another chunk, or one that is damaged, changes nothing: false.
  bool take(std::string_view frame);
  void sync() const;  // to the disk

 private:
  template <typename Use>
  void for_ranges(std::int64_t begin, std::int64_t count, const Use& use) const;

  State about_;
  std::vector<os::Descriptor> files_;
  std::int64_t pieces_ = 0;
};

}  // namespace trireme::islands
