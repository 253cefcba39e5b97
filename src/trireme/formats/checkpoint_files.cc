// The part of manifest.h that looks at directories.
#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"
#include "trireme/formats/shown.h"

namespace trireme::formats {
namespace {

constexpr std::string_view kTensorSuffix = ".safetensors";
constexpr std::string_view kStepPrefix = "step-";

// A shard put in from another checkpoint hashes wrong; saying which step it is from helps more.
std::string foreign_step(const Path& path, std::int64_t step) {
  try {
    const SafetensorsFile file(path);
    const auto said = file.metadata().find("step");
    if (said != file.metadata().end() && said->second != std::to_string(step))
      return fmt::format(" (it is of step {}, the manifest of step {})", shown(said->second), step);
  } catch (const Error&) {
    return {};
  }
  return {};
}

void verify_file(const Path& directory, const ManifestFile& file, std::int64_t step) {
  const Path path = directory / file.name;
  std::error_code cause;
  const auto status = std::filesystem::symlink_status(path, cause);
  if (!std::filesystem::exists(status)) fail(ErrorKind::kData, "{}: is missing", path.string());
  if (!std::filesystem::is_regular_file(status))
    fail(ErrorKind::kData, "{}: is not a regular file", path.string());
  const auto size = static_cast<std::int64_t>(std::filesystem::file_size(path, cause));
  if (size != file.size)
    fail(ErrorKind::kData, "{}: has {} bytes, the manifest says {}{}", path.string(), size,
         file.size, foreign_step(path, step));
  const FileDigest digest = digest_file(path);
  if (digest.hash != file.hash)
    fail(ErrorKind::kData, "{}: hash {} where the manifest says {}: damaged or swapped{}",
         path.string(), hex64(digest.hash), hex64(file.hash), foreign_step(path, step));
}

void verify_slices(const Path& directory, const Manifest& manifest) {
  std::map<std::string, SafetensorsFile> open;
  for (const ManifestUnit& unit : manifest.units)
    for (const ManifestSlice& slice : unit.slices) {
      const Path path = directory / slice.file;
      const auto file = open.try_emplace(slice.file, path).first;
      const Tensor* tensor = file->second.find(slice.tensor);
      if (tensor == nullptr)
        fail(ErrorKind::kData, "{}: has no tensor {}", path.string(), shown(slice.tensor));
      if (tensor->numel() != slice.length)
        fail(ErrorKind::kData, "{}: tensor {} has {} elements, the manifest says {}", path.string(),
             shown(slice.tensor), tensor->numel(), slice.length);
    }
}

// N of "step-N", or nothing for every other name (also "step-007": one directory per step).
std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return {};
  const std::string_view digits = std::string_view(name).substr(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, cause] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (cause != std::errc() || end != digits.data() + digits.size() ||
      std::to_string(step) != digits)
    return {};
  return step;
}

std::vector<CheckpointEntry> step_directories(const Path& root) {
  std::vector<CheckpointEntry> found;
  std::error_code cause;
  if (!std::filesystem::exists(root, cause)) return found;
  for (std::filesystem::directory_iterator it(root, cause), end; !cause && it != end;
       it.increment(cause))
    if (const auto step = step_of(it->path().filename().string()); step && *step >= 0)
      found.push_back({.step = *step, .path = it->path(), .problem = {}});
  if (cause)
    fail(ErrorKind::kData, "{}: cannot list checkpoints: {}", root.string(), cause.message());
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.step > b.step; });
  return found;
}

Manifest read_checked(const CheckpointEntry& entry, CheckpointCheck check) {
  Manifest manifest = check == CheckpointCheck::kEveryByte ? verify_checkpoint(entry.path)
                                                           : read_manifest(entry.path);
  if (manifest.step != entry.step)
    fail(ErrorKind::kData, "{}: its manifest is of step {}", entry.path.string(), manifest.step);
  return manifest;
}

}  // namespace

Manifest verify_checkpoint(const Path& directory) {
  Manifest manifest = read_manifest(directory);
  std::set<std::string> known{kManifestName};
  for (const ManifestFile& file : manifest.files) {
    verify_file(directory, file, manifest.step);
    known.insert(file.name);
  }
  for (const auto& item : std::filesystem::directory_iterator(directory)) {
    const std::string name = item.path().filename().string();
    if (name.ends_with(kTensorSuffix) && !known.contains(name))
      fail(ErrorKind::kData, "{}: the manifest does not know this file", item.path().string());
  }
  verify_slices(directory, manifest);
  return manifest;
}

std::vector<CheckpointEntry> list_checkpoints(const Path& root, CheckpointCheck check) {
  std::vector<CheckpointEntry> entries = step_directories(root);
  for (CheckpointEntry& entry : entries) try {
      read_checked(entry, check);
    } catch (const Error& error) {
      entry.problem = error.what();
    }
  return entries;
}

std::optional<NewestCheckpoint> newest_checkpoint(const Path& root, CheckpointCheck check) {
  std::vector<CheckpointEntry> refused;
  for (CheckpointEntry& entry : step_directories(root)) try {
      Manifest manifest = read_checked(entry, check);
      return NewestCheckpoint{
          .path = entry.path, .manifest = std::move(manifest), .refused = std::move(refused)};
    } catch (const Error& error) {
      entry.problem = error.what();
      refused.push_back(entry);
    }
  if (refused.empty()) return {};
  fail(ErrorKind::kData, "{}: none of {} checkpoints is usable; the newest: {}", root.string(),
       refused.size(), refused.front().problem);
}

}  // namespace trireme::formats
