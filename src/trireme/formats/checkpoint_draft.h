// CheckpointDraft: a checkpoint on its way to disk. Nothing of it counts before commit(), and all of it after.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"

namespace trireme::formats {

// Directories that count for nothing: being written, and being deleted.
inline constexpr char kUnfinishedSuffix[] = ".tmp";
inline constexpr char kDeletedSuffix[] = ".deleted";

// ROOT/step-N.tmp while it is written, ROOT/step-N once it is committed. One at a time below
// ROOT; other writers of its files (other ranks) need its directory only. Everything throws Error{kData} naming path and cause.
class CheckpointDraft {
 public:
  // ROOT must be there: on a disk that is no longer mounted it would else fill another. Removes what saves and
  // deletions left that were killed.
  CheckpointDraft(os::FileSystem& files, const Path& root, std::int64_t step);
  // Takes away what was not committed: a full disk needs the space.
  ~CheckpointDraft();
  CheckpointDraft(const CheckpointDraft&) = delete;
  CheckpointDraft& operator=(const CheckpointDraft&) = delete;

  // Where step N's files are written.
  static Path directory(const Path& root, std::int64_t step);

  // Once all files are written and synced: the manifest, then their names, then the rename, then the name of that; in
  // this order power may go at any moment. What bore the name before was refused by whoever began this run. When it
  // returns, the checkpoint is there to stay; after a failure nothing of it is.
  // `may` is called last before the rename and stops it by throwing.
  Path commit(
      const Manifest& manifest, const std::function<void()>& may = [] {});

 private:
  os::FileSystem& files_;
  Path root_;
  Path final_;
  Path at_;  // where it lies now; empty: committed
};

// Writes and syncs DIRECTORY/NAME as stream_safetensors does, then reads it back: a disk that took other bytes than it
// was given is found here and not at the next resume. Throws Error{kData}.
ManifestFile write_shard(os::FileSystem& files, const Path& directory, const std::string& name,
                         std::int64_t step, std::span<const TensorInfo> tensors,
                         const TensorBytes& bytes);

}  // namespace trireme::formats
