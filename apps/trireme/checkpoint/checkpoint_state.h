// State of the checkpoints of a run, with and without reading all their bytes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/formats/manifest.h"

namespace trireme::app {

enum class CheckpointState {
  kVerified,    // every byte is as it was written
  kUnverified,  // not read since it was written, without signs of a change
  kDamaged,
  kIncomplete,  // no manifest: its writing or a copy of it was not finished
};
const char* name(CheckpointState state);

struct CheckpointReport {
  Path path;
  CheckpointState state = CheckpointState::kUnverified;
  std::string problem{};                        // of one that is damaged or incomplete
  std::optional<formats::Manifest> manifest{};  // unless that is what is damaged or missing
};

// Directories step-N and, left by a writer that was killed or still works, step-N.tmp below `root`; ascending.
std::vector<Path> checkpoints_below(const Path& root);

// Reads every byte of a step-N, and keeps what it found for look_at().
CheckpointReport verify_bytes(const Path& checkpoint);

// State without reading all bytes. Reads them only where sizes, names or times say that files were changed after their
// manifest was written, unless they were read since.
CheckpointReport look_at(const Path& checkpoint);

}  // namespace trireme::app
