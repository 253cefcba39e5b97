// Going back in a run's checkpoints: an older one becomes the one that the run goes on from.
#pragma once

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/manifest.h"

namespace trireme::formats {

// Gives ROOT/step-N, N being manifest.step, this manifest, which differs from its own in what it says of training, and
// then deletes the usable checkpoints after it, newest first. One rename makes the difference: whenever power or process
// goes, its manifest is the old one or the new one, and what is left after it is of the run as it was. Its identity
// (checkpoint::identity) becomes another. Throws Error{kData}.
void go_back(os::FileSystem& files, const Path& root, Manifest manifest);

}  // namespace trireme::formats
