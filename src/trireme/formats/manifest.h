// The manifest of a checkpoint directory: written last, it is what makes the directory a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"

namespace trireme::formats {

inline constexpr char kManifestName[] = "manifest.json";

// A file of the checkpoint; `hash` is XXH3-64 of all its bytes, `blocks` those of each MiB of them.
struct ManifestFile {
  std::string name;
  std::int64_t size = 0;
  std::uint64_t hash = 0;
  std::vector<std::uint64_t> blocks{};  // version 1 has none
};

// How many ranks a mesh axis had.
struct ManifestAxis {
  std::string axis;
  std::int64_t degree = 1;
};

// A parameter inside its unit; `offset` counts elements from the unit's start.
struct ManifestParameter {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;
};

// Elements [offset, offset + length) of one flat quantity of a unit ("param", "exp_avg", ...), kept as
// tensor `tensor` of file `file`.
struct ManifestSlice {
  std::string file;
  std::string tensor;
  std::string kind;
  std::int64_t offset = 0;
  std::int64_t length = 0;
  std::int64_t block = 1;  // elements of the unit for each one of these: scales of 8-bit states
};

// A flat unit of `numel` elements without shard padding, or what tensor-parallel rank `tp_rank` of `tp` holds
// of it. The slices of each kind tile [0, numel), or the blocks of that; kind "param" is always there. Parameters stand in ascending
// order and do not overlap; their shapes are those held here.
struct ManifestUnit {
  std::string name;
  std::int64_t numel = 0;
  std::int64_t tp_rank = 0;
  std::int64_t tp = 1;
  std::vector<ManifestParameter> parameters{};
  std::vector<ManifestSlice> slices{};
};

// State of training, and location of its tensors.
struct Manifest {
  std::int64_t step = 0;
  std::int64_t world = 1;
  std::vector<ManifestAxis> layout{};  // of the ranks that wrote it; empty: unknown
  std::int64_t consumed_samples = 0;
  std::string dataset_digest{};  // empty when the data has none
  std::string vocabulary{};      // digest of the tokenizer of the ids; empty: no text, or unknown
  std::optional<double> eval_loss{};  // of this step, if it was evaluated
  std::string job{};                  // the resolved job, YAML
  std::string train_state = "{}";     // a JSON object, opaque here
  std::string build{};                // what wrote it
  std::string base{};  // not empty: names the checkpoint of the units that this one leaves out
  std::vector<ManifestFile> files{};
  std::vector<ManifestUnit> units{};
};

// JSON text that ends with a digest of itself, of format version 2. An inconsistent manifest is our bug.
std::string print(const Manifest& manifest);

// Inverse of print on untrusted text, also of version 1. It checks the digest, every type and range, that names are
// plain file names, and the tiling of every unit and kind. Throws Error{kData}, the message beginning with `what`.
Manifest parse_manifest(std::string_view text, const std::string& what);

// The same of one of its files alone.
std::string print(const ManifestFile& file);
ManifestFile parse_manifest_file(std::string_view text, const std::string& what);

// Reads `directory`/manifest.json. Throws Error{kData}.
Manifest read_manifest(const Path& directory, os::FileSystem& files = os::real_file_system());

}  // namespace trireme::formats
