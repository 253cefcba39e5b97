#include "trireme/formats/go_back.h"

#include <fmt/format.h>

#include "trireme/base/os/durable.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/formats/digest.h"

namespace trireme::formats {

void go_back(os::FileSystem& files, const Path& root, Manifest manifest) {
  const Path directory = root / fmt::format("step-{}", manifest.step);
  for (ManifestFile& file : manifest.files)  // version 1 has no hashes of MiBs
    if (file.blocks.empty()) file.blocks = digest_of(*files.read(directory / file.name)).mib_hashes;
  const Path fresh = directory / (std::string(kManifestName) + ".new");
  os::remove_tree(files, fresh);
  os::write_new_file(files, fresh, print(manifest));
  os::rename(files, fresh, directory / kManifestName);
  os::fsync_directory(files, directory);
  for (const CheckpointEntry& entry : list_checkpoints(root, CheckpointCheck::kManifest, files))
    if (entry.step > manifest.step && entry.problem.empty())
      os::rename_and_remove(files, entry.path, Path(entry.path) += kDeletedSuffix);
}

}  // namespace trireme::formats
