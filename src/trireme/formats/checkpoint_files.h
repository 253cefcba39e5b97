// Checkpoint directories as they are read: verified, listed, the newest usable one found.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"

namespace trireme::formats {

// A checkpoint of which every byte has been verified, and its files as they were then, by name.
struct OpenCheckpoint {
  Manifest manifest;
  std::map<std::string, SafetensorsFile> files;
};

// Reads the manifest and checks every byte of every file: existence, size, hash, the tensor of every slice, and the
// absence of other safetensors files. Throws Error{kData} naming the file, and for damage the bytes and the tensors in
// them. Refuses symbolic links, devices and pipes. With `only`, checks those of its files alone, whether or not the
// others exist.
OpenCheckpoint open_checkpoint(const Path& directory,
                               os::FileSystem& files = os::real_file_system(),
                               const std::optional<std::set<std::string>>& only = std::nullopt);

// The same, only to verify.
Manifest verify_checkpoint(const Path& directory, os::FileSystem& files = os::real_file_system());

// One checkpoint directory "step-N"; `problem` says why it cannot be used, empty when it can.
struct CheckpointEntry {
  std::int64_t step = 0;
  Path path;
  std::string problem;
  std::optional<double> eval_loss{};
};

// How far a checkpoint is believed: its manifest alone, or every byte.
enum class CheckpointCheck { kManifest, kEveryByte };

// All "step-N" directories under `root`, newest first; an absent root has none.
std::vector<CheckpointEntry> list_checkpoints(const Path& root,
                                              CheckpointCheck check = CheckpointCheck::kManifest,
                                              os::FileSystem& files = os::real_file_system());

// The newest usable checkpoint and why newer ones were refused.
struct NewestCheckpoint {
  Path path;
  Manifest manifest;
  std::vector<CheckpointEntry> refused;
};

// Newest of those with N up to `last`. Nothing when no such "step-N" directory lies under `root`. When there are some
// but none is usable: Error{kData} with the reason of the newest.
std::optional<NewestCheckpoint> newest_checkpoint(
    const Path& root, CheckpointCheck check = CheckpointCheck::kEveryByte,
    os::FileSystem& files = os::real_file_system(),
    std::int64_t last = std::numeric_limits<std::int64_t>::max());

// N of "step-N", or nothing for every other name (also "step-007": one directory per step).
std::optional<std::int64_t> step_of(const std::string& name);

}  // namespace trireme::formats
