#include "trireme/formats/checkpoint_draft.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::formats {
namespace {

Path ending_in(Path path, const char* suffix) { return path += suffix; }

void sweep(os::FileSystem& files, const Path& root) {
  for (const std::string& name : os::list(files, root))
    for (const std::string_view suffix : {kUnfinishedSuffix, kDeletedSuffix})
      if (name.ends_with(suffix) && step_of(name.substr(0, name.size() - suffix.size())))
        os::remove_tree(files, root / name);
}

}  // namespace

Path CheckpointDraft::directory(const Path& root, std::int64_t step) {
  return root / fmt::format("step-{}{}", step, kUnfinishedSuffix);
}

CheckpointDraft::CheckpointDraft(os::FileSystem& files, const Path& root, std::int64_t step)
    : files_(files), root_(root), final_(root / fmt::format("step-{}", step)) {
  if (files.status(root).kind == os::Kind::kAbsent)
    fail(ErrorKind::kData, "{}: is no longer there", root.string());
  const Path path = directory(root, step);
  sweep(files, root);
  os::make_directory(files, path);
  at_ = path;
}

CheckpointDraft::~CheckpointDraft() {
  if (at_.empty()) return;
  try {
    if (at_ == final_) os::rename(files_, final_, ending_in(final_, kUnfinishedSuffix));
    os::remove_tree(files_, ending_in(final_, kUnfinishedSuffix));
  } catch (...) {
    // The disk that failed the save may fail this too: the next one sweeps.
  }
}

Path CheckpointDraft::commit(const Manifest& manifest, const std::function<void()>& may) {
  TRIREME_CHECK(!at_.empty(), "a checkpoint is committed once");
  os::write_new_file(files_, at_ / kManifestName, print(manifest));
  os::fsync_directory(files_, at_);
  may();
  // Left to the next sweep: nothing that may fail comes after the checkpoint is there.
  if (files_.status(final_).kind != os::Kind::kAbsent)
    os::rename(files_, final_, ending_in(final_, kDeletedSuffix));
  os::rename(files_, at_, final_);
  at_ = final_;
  os::fsync_directory(files_, root_);
  at_.clear();
  return final_;
}

ManifestFile write_shard(os::FileSystem& files, const Path& directory, const std::string& name,
                         std::int64_t step, std::span<const TensorInfo> tensors,
                         const TensorBytes& bytes) {
  const Path path = directory / name;
  const FileDigest written =
      stream_safetensors(path, tensors, {{"format", "pt"}, {"step", std::to_string(step)}},
                         TensorOrder::kOfficial, bytes, files);
  if (digest_of(*files.read(path)) != written)
    fail(ErrorKind::kData, "{}: holds other bytes than were written: the disk or its memory is bad",
         path.string());
  return {.name = name, .size = written.size, .hash = written.hash, .blocks = written.mib_hashes};
}

}  // namespace trireme::formats
