#include "trireme/formats/checkpoint_files.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/os/durable.h"
#include "trireme/formats/digest.h"
#include "trireme/formats/shown.h"

namespace trireme::formats {
namespace {

constexpr std::string_view kTensorSuffix = ".safetensors";
constexpr std::string_view kStepPrefix = "step-";

using Bytes = std::span<const std::byte>;

// The header of a file, if it can be read.
std::optional<TensorTable> table_of(Bytes bytes) {
  try {
    return parse_safetensors(bytes, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// A shard put in from elsewhere hashes wrong; saying where it is from helps more.
std::string foreign(const std::optional<TensorTable>& table, const FileDigest& digest,
                    const ManifestFile& file, const Manifest& manifest) {
  for (const ManifestFile& other : manifest.files)
    if (other.name != file.name && other.hash == digest.hash && other.size == digest.size)
      return fmt::format(" (it is what {} should be)", shown(other.name));
  if (!table) return {};
  const auto said = table->metadata.find("step");
  if (said == table->metadata.end() || said->second == std::to_string(manifest.step)) return {};
  return fmt::format(" (it is of step {}, the manifest of step {})", shown(said->second),
                     manifest.step);
}

// The same where the size alone shows it. It may be so large that it cannot be mapped.
std::string foreign_size(const Path& path, const ManifestFile& file, const Manifest& manifest,
                         os::FileSystem& files) {
  try {
    const std::unique_ptr<os::Contents> contents = files.read(path);
    return foreign(table_of(contents->bytes()), {.size = -1}, file, manifest);
  } catch (const Error&) {
    return {};
  }
}

// What lies in bytes [begin, end) of a file.
std::string parts_within(const std::optional<TensorTable>& table, Bytes bytes, std::size_t begin,
                         std::size_t end) {
  if (!table) return "its header cannot be read";
  std::vector<std::string> parts;
  std::size_t data = bytes.size();  // where the header ends
  for (const Tensor& tensor : table->tensors) {
    const auto at = static_cast<std::size_t>(tensor.bytes.data() - bytes.data());
    data = std::min(data, at);
    if (at < end && at + tensor.bytes.size() > begin) parts.push_back(shown(tensor.name));
  }
  std::string header = begin < data ? "the header" : "";
  if (parts.empty()) return header;
  const std::string tensors = parts.size() == 1
                                  ? "tensor " + parts[0]
                                  : fmt::format("tensors {} to {}", parts[0], parts.back());
  return header.empty() ? tensors : header + " and " + tensors;
}

// The blocks of a file of the right size that are not as they were written.
std::string damage(const std::optional<TensorTable>& table, Bytes bytes, const FileDigest& digest,
                   const ManifestFile& file) {
  if (file.blocks.empty())
    return fmt::format("hash {} where the manifest says {}: damaged or swapped", hex64(digest.hash),
                       hex64(file.hash));
  std::size_t first = file.blocks.size(), count = 0;
  for (std::size_t block = file.blocks.size(); block-- > 0;)
    if (file.blocks[block] != digest.mib_hashes[block]) ++count, first = block;
  const std::size_t begin = std::min(first * FileDigest::kBlock, bytes.size());
  const std::size_t end = std::min(begin + FileDigest::kBlock, bytes.size());
  return fmt::format("bytes {} to {} are not those that were written ({}); {} of {} blocks differ",
                     begin, end, parts_within(table, bytes, begin, end), count, file.blocks.size());
}

SafetensorsFile open_verified(const Path& directory, const ManifestFile& file,
                              const Manifest& manifest, os::FileSystem& files) {
  const Path path = directory / file.name;
  const os::Status status = files.status(path);
  if (status.kind == os::Kind::kAbsent) fail(ErrorKind::kData, "{}: is missing", path.string());
  if (status.kind != os::Kind::kFile)
    fail(ErrorKind::kData, "{}: is not a regular file", path.string());
  if (status.size != file.size)
    fail(ErrorKind::kData, "{}: has {} bytes, the manifest says {}{}", path.string(), status.size,
         file.size, foreign_size(path, file, manifest, files));
  std::unique_ptr<os::Contents> contents = files.read(path);
  const Bytes bytes = contents->bytes();
  if (static_cast<std::int64_t>(bytes.size()) != file.size)
    fail(ErrorKind::kData, "{}: changes its size while it is read", path.string());
  if (hash_of(*contents) != file.hash) {
    const std::optional<TensorTable> table = table_of(bytes);
    const FileDigest digest = digest_of(bytes);
    fail(ErrorKind::kData, "{}: {}{}", path.string(), damage(table, bytes, digest, file),
         foreign(table, digest, file, manifest));
  }
  return SafetensorsFile(std::move(contents), path.string());
}

void verify_slices(const Path& directory, const OpenCheckpoint& open) {
  for (const ManifestUnit& unit : open.manifest.units)
    for (const ManifestSlice& slice : unit.slices) {
      const auto file = open.files.find(slice.file);
      if (file == open.files.end()) continue;
      const Path path = directory / slice.file;
      const Tensor* tensor = file->second.find(slice.tensor);
      if (tensor == nullptr)
        fail(ErrorKind::kData, "{}: has no tensor {}", path.string(), shown(slice.tensor));
      if (tensor->numel() != slice.length)
        fail(ErrorKind::kData, "{}: tensor {} has {} elements, the manifest says {}", path.string(),
             shown(slice.tensor), tensor->numel(), slice.length);
    }
}

std::vector<CheckpointEntry> step_directories(const Path& root, os::FileSystem& files) {
  std::vector<CheckpointEntry> found;
  if (files.status(root).kind == os::Kind::kAbsent) return found;
  for (const std::string& name : os::list(files, root))
    if (const auto step = step_of(name))
      found.push_back({.step = *step, .path = root / name, .problem = {}});
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.step > b.step; });
  return found;
}

Manifest read_checked(const CheckpointEntry& entry, CheckpointCheck check, os::FileSystem& files) {
  Manifest manifest = check == CheckpointCheck::kEveryByte ? verify_checkpoint(entry.path, files)
                                                           : read_manifest(entry.path, files);
  if (manifest.step != entry.step)
    fail(ErrorKind::kData, "{}: its manifest is of step {}", entry.path.string(), manifest.step);
  return manifest;
}

}  // namespace

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(kStepPrefix)) return {};
  const std::string_view digits = std::string_view(name).substr(kStepPrefix.size());
  std::int64_t step = 0;
  const auto [end, cause] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (cause != std::errc() || end != digits.data() + digits.size() || step < 0 ||
      std::to_string(step) != digits)
    return {};
  return step;
}

OpenCheckpoint open_checkpoint(const Path& directory, os::FileSystem& files,
                               const std::optional<std::set<std::string>>& only) {
  OpenCheckpoint open{.manifest = read_manifest(directory, files), .files = {}};
  std::set<std::string> known;
  for (const ManifestFile& file : open.manifest.files) {
    known.insert(file.name);
    if (!only || only->contains(file.name))
      open.files.emplace(file.name, open_verified(directory, file, open.manifest, files));
  }
  for (const std::string& name : os::list(files, directory))
    if (name.ends_with(kTensorSuffix) && !known.contains(name))
      fail(ErrorKind::kData, "{}: the manifest does not know this file",
           (directory / name).string());
  verify_slices(directory, open);
  return open;
}

Manifest verify_checkpoint(const Path& directory, os::FileSystem& files) {
  return std::move(open_checkpoint(directory, files).manifest);
}

std::vector<CheckpointEntry> list_checkpoints(const Path& root, CheckpointCheck check,
                                              os::FileSystem& files) {
  std::vector<CheckpointEntry> entries = step_directories(root, files);
  for (CheckpointEntry& entry : entries) try {
      entry.eval_loss = read_checked(entry, check, files).eval_loss;
    } catch (const Error& error) {
      entry.problem = error.what();
    }
  return entries;
}

std::optional<NewestCheckpoint> newest_checkpoint(const Path& root, CheckpointCheck check,
                                                  os::FileSystem& files, std::int64_t last) {
  std::vector<CheckpointEntry> refused;
  std::vector<CheckpointEntry> entries = step_directories(root, files);
  std::erase_if(entries, [&](const CheckpointEntry& entry) { return entry.step > last; });
  for (CheckpointEntry& entry : entries) try {
      Manifest manifest = read_checked(entry, check, files);
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
