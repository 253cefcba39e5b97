// Return to an older checkpoint of a run, from which the run then continues.
#pragma once

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/manifest.h"

namespace trireme::formats {

// Gives ROOT/step-N, with N = manifest.step, this manifest, which differs from the old one in the state of training.
// Then deletes the usable checkpoints after it, newest first. One rename is decisive: after a crash or power loss at
// any time, the manifest is the old one or the new one, and later checkpoints still belong to the run as it was. Its
// identity (checkpoint::identity) changes. Throws Error{kData}.
void go_back(os::FileSystem& files, const Path& root, Manifest manifest);

}  // namespace trireme::formats
