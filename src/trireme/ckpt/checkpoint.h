// Checkpoints: unit states of every rank, the data cursor and the job, committed by one rename.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/comm/group.h"
#include "trireme/exec/units.h"
#include "trireme/formats/manifest.h"

namespace trireme::ckpt {

// What a checkpoint says beside its tensors.
struct Header {
  std::int64_t step = 0;              // steps done
  std::int64_t consumed_samples = 0;  // the data cursor: layout-free
  std::string dataset_digest;
  std::string job;                 // resolved, YAML
  std::string train_state = "{}";  // JSON object
  std::string build;
};

// Writes ROOT/step-N. Collective over `group`, which is the world: every rank writes the slices it owns
// to step-N.tmp, fsynced and digested; rank 0 writes the manifest last, renames the directory and
// fsyncs ROOT. An existing step-N is replaced only by a rename. A failure on any rank throws on every
// rank (Error{kData} naming rank and cause) and leaves earlier checkpoints untouched.
Path save(const Path& root, const Header& header, const exec::Units& units,
          const std::vector<arch::UnitSpec>& specs, comm::World& world);

// Removes all but the newest `keep` checkpoints below `root` (0 keeps all). Never fewer than one.
void prune(const Path& root, std::int64_t keep);

// Fills this rank's units from a checkpoint of any data-, context- and tensor-parallel layout. Every byte is verified before
// any tensor changes. Throws Error{kData} when the manifest's units differ from `specs` or a file is
// damaged. Call Units::refresh() (collective) afterwards.
formats::Manifest load(const Path& directory, const exec::Units& units,
                       const std::vector<arch::UnitSpec>& specs);

}  // namespace trireme::ckpt
