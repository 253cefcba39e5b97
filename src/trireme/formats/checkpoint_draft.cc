#include "trireme/formats/checkpoint_draft.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::formats {
namespace {

// In a draft until it is committed.
constexpr char kAnnouncedName[] = "manifest.announced.json";
constexpr char kDigestSuffix[] = ".digest.json";

Path ending_in(Path path, const char* suffix) { return path += suffix; }

Path digest_path(const Path& directory, const std::string& name) {
  return directory / (name + kDigestSuffix);
}

std::string text_in(os::FileSystem& files, const Path& path) {
  const std::unique_ptr<os::Contents> contents = files.read(path);
  const auto bytes = contents->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Manifest announced_with_digests(os::FileSystem& files, const Path& draft) {
  const Path path = draft / kAnnouncedName;
  Manifest manifest = parse_manifest(text_in(files, path), path.string());
  for (ManifestFile& file : manifest.files) {
    const Path digest = digest_path(draft, file.name);
    ManifestFile written = parse_manifest_file(text_in(files, digest), digest.string());
    if (written.name != file.name)
      fail(ErrorKind::kData, "{}: is of another file", digest.string());
    file = std::move(written);
  }
  return manifest;
}

// Of a draft of which every part is there; Error{kData} of any other.
Manifest whole_manifest(os::FileSystem& files, const Path& draft) {
  const auto read = [&] {
    try {
      return read_manifest(draft, files);  // it was being committed
    } catch (const Error&) {
      return announced_with_digests(files, draft);
    }
  };
  Manifest manifest = read();
  for (const ManifestFile& file : manifest.files)
    if (files.status(draft / file.name).size != file.size)
      fail(ErrorKind::kData, "{}: does not have {} bytes", (draft / file.name).string(), file.size);
  return manifest;
}

std::optional<std::int64_t> step_before(const std::string& name, std::string_view suffix) {
  return name.ends_with(suffix) ? step_of(name.substr(0, name.size() - suffix.size()))
                                : std::nullopt;
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
  remove_drafts(files, root);
  os::make_directory(files, path);
  at_ = path;
}

CheckpointDraft::CheckpointDraft(os::FileSystem& files, const Path& root, std::int64_t step, Found)
    : files_(files),
      root_(root),
      final_(root / fmt::format("step-{}", step)),
      at_(directory(root, step)) {}

CheckpointDraft::~CheckpointDraft() {
  if (at_.empty()) return;
  try {
    if (at_ == final_) os::rename(files_, final_, ending_in(final_, kUnfinishedSuffix));
    os::remove_tree(files_, ending_in(final_, kUnfinishedSuffix));
  } catch (...) {
    // The disk that failed the save may fail this too: the next one sweeps.
  }
}

std::vector<Path> CheckpointDraft::commit_complete(os::FileSystem& files, const Path& root) {
  std::vector<Path> committed;
  for (const std::int64_t step : complete_drafts(files, root)) {
    CheckpointDraft draft(files, root, step, Found());
    try {
      committed.push_back(draft.commit(whole_manifest(files, draft.at_)));
    } catch (const Error&) {
      draft.leave();
    }
  }
  return committed;
}

void CheckpointDraft::announce(const Manifest& manifest) const {
  os::write_new_file(files_, at_ / kAnnouncedName, print(manifest));
}

Path CheckpointDraft::commit(const Manifest& manifest, const std::function<void()>& may) {
  TRIREME_CHECK(!at_.empty(), "a checkpoint is committed once");
  os::remove_tree(files_, at_ / kManifestName);  // of a commit that was killed
  os::write_new_file(files_, at_ / kManifestName, print(manifest));
  os::fsync_directory(files_, at_);
  for (const std::string& name : os::list(files_, at_))
    if (name == kAnnouncedName || name.ends_with(kDigestSuffix))
      os::remove_tree(files_, at_ / name);
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

void write_digest(os::FileSystem& files, const Path& directory, const ManifestFile& file) {
  os::write_new_file(files, digest_path(directory, file.name), print(file));
}

std::vector<std::int64_t> complete_drafts(os::FileSystem& files, const Path& root) {
  std::vector<std::int64_t> steps;
  if (files.status(root).kind == os::Kind::kAbsent) return steps;
  for (const std::string& name : os::list(files, root)) {
    const auto step = step_before(name, kUnfinishedSuffix);
    if (!step) continue;
    try {
      whole_manifest(files, root / name);
      steps.push_back(*step);
    } catch (const Error&) {
      continue;  // a part is not there
    }
  }
  return steps;
}

void remove_drafts(os::FileSystem& files, const Path& root) {
  for (const std::string& name : os::list(files, root))
    if (step_before(name, kUnfinishedSuffix) || step_before(name, kDeletedSuffix))
      os::remove_tree(files, root / name);
}

}  // namespace trireme::formats
