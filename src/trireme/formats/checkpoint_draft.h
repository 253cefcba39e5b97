// CheckpointDraft: a checkpoint on its way to disk. Nothing of it counts before commit(), and all of it after.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

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

  // Commits the complete drafts below ROOT (complete_drafts) and returns their directories. No run may write there. A
  // draft that cannot be committed stays as it is.
  static std::vector<Path> commit_complete(os::FileSystem& files, const Path& root);

  // Where step N's files are written.
  static Path directory(const Path& root, std::int64_t step);

  // The manifest without the digests of its files, before they are written. With it and the digest next to each file
  // (write_digest) the next start can commit the draft if this run ends before it does.
  void announce(const Manifest& manifest) const;
  // Leaves it to the next start: the destructor takes nothing away.
  void leave() { at_.clear(); }

  // Call it once all files are written and synced. It writes the manifest, syncs the directory, renames it and syncs
  // the parent: in this order a power loss at any moment is safe. The start of this run has refused an earlier
  // directory of that name. When it returns, the checkpoint is durable; after a failure nothing of it exists. `may` is
  // called last before the rename and stops it by throwing.
  Path commit(
      const Manifest& manifest, const std::function<void()>& may = [] {});

 private:
  struct Found {};
  CheckpointDraft(os::FileSystem& files, const Path& root, std::int64_t step, Found);

  os::FileSystem& files_;
  Path root_;
  Path final_;
  Path at_;  // where it lies now; empty: committed
};

// Writes and syncs DIRECTORY/NAME like stream_safetensors, then reads it back. Bytes that a disk changed are found here
// and not at the next resume. Throws Error{kData}.
ManifestFile write_shard(os::FileSystem& files, const Path& directory, const std::string& name,
                         std::int64_t step, std::span<const TensorInfo> tensors,
                         const TensorBytes& bytes);

// Writes and syncs what write_shard returned next to its file. Throws Error{kData}.
void write_digest(os::FileSystem& files, const Path& directory, const ManifestFile& file);

// The steps of the drafts below ROOT of which the announced manifest and every file with its digest are there. Sizes are
// compared; the bytes were read back before their digest was written, and a resume reads them again. An absent ROOT has
// none.
std::vector<std::int64_t> complete_drafts(os::FileSystem& files, const Path& root);

// Removes the drafts below ROOT, complete or not, and what deletions left that were killed. Throws Error{kData}.
void remove_drafts(os::FileSystem& files, const Path& root);

}  // namespace trireme::formats
