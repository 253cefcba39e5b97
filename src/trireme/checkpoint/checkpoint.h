// Checkpoints: unit states of every rank, the data cursor and the job, committed by one rename.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/comm/group.h"
#include "trireme/exec/units/units.h"
#include "trireme/formats/manifest.h"

namespace trireme::checkpoint {

// Contents of a checkpoint apart from its tensors.
struct Header {
  std::int64_t step = 0;              // steps done
  std::int64_t consumed_samples = 0;  // the data cursor: layout-free
  std::string dataset_digest;
  std::string vocabulary{};           // digest of the tokenizer; empty where samples are no text
  std::optional<double> eval_loss{};  // of this step, if it was evaluated
  std::string job;                    // resolved, YAML
  std::string train_state = "{}";     // JSON object
  std::string build;
  std::string
      base{};  // not empty: identity of the checkpoint of what does not train, which is left out
};

// Writes ROOT/step-N at once; ROOT must be there. Collective over the world. Every rank writes the slices it owns to
// step-N.tmp, one at a time, fsynced, digested and read back. Rank 0 writes the manifest last, renames the directory
// and fsyncs ROOT. A failure on any rank throws on every rank (Error{kData} naming rank and cause), leaves earlier
// checkpoints untouched and nothing of this one.
Path save(const Path& root, const Header& header, const exec::Units& units,
          const std::vector<model::UnitSpec>& specs, comm::World& world);

// Fills this rank's units, one slice at a time, from a checkpoint of any data-, context- and tensor-parallel layout.
// Where tp changes, each slice is cut out of its whole unit. Every byte is verified before any tensor changes. Throws
// Error{kData} when the manifest's units differ from `specs` or a file is damaged, and where it leaves units out whose
// base is not `base`. Call Units::refresh() (collective) afterwards. With Files::kNeeded only the files that this rank
// reads are verified, and need be there.
enum class Files { kAll, kNeeded };
formats::Manifest load(const Path& directory, exec::Units& units,
                       const std::vector<model::UnitSpec>& specs, const Path& base = {},
                       Files files = Files::kAll);

// The files of a checkpoint that this rank reads to fill its units. Throws Error{kData} where it is of another model.
std::set<std::string> needed_files(const formats::Manifest& manifest, const exec::Units& units,
                                   const std::vector<model::UnitSpec>& specs);

// Treatment of trained units that are missing in a checkpoint, such as a probe's on another run's tower.
enum class NewUnits { kRefused, kAsDrawn };

// Fills this rank's parameters, of all units or of those wanted, by name. The source is a checkpoint of another run
// under any layout, or a directory of Hugging Face's files; values are converted to the type of the parameters.
// Adapters that it lacks stay as they are. Every byte is verified before any tensor changes. Throws Error{kData} naming
// parameters that are missing or of another shape. Call Units::refresh() afterwards.
void load_weights(const Path& directory, exec::Units& units,
                  const std::vector<model::UnitSpec>& specs, NewUnits news = NewUnits::kRefused);
void load_weights(const Path& directory, exec::Units& units,
                  const std::vector<model::UnitSpec>& specs,
                  const std::vector<plan::UnitId>& wanted);

// For checkpoints that are to leave out what does not train: throws Error{kData} naming a unit of which `units` hold
// anything else than `base` does.
void check_frozen(const Path& base, const exec::Units& units,
                  const std::vector<model::UnitSpec>& specs);

// Identity of weights: a digest of a checkpoint's manifest, or of all bytes of Hugging Face's files.
std::string identity(const Path& directory);

}  // namespace trireme::checkpoint
