// StateReader: the elements of a checkpoint's units, whatever ranks wrote them, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/fs.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

// A quantity that is kept of a unit: "param", "exp_avg", ...
struct Kind {
  std::string name;
  DType type = DType::kF32;
  std::int64_t block = 1;  // elements of the unit for each of these
};

// How a unit's part has a kind stored, where a file that was opened holds some of it.
std::optional<Kind> stored_kind(const formats::OpenCheckpoint& open,
                                const formats::ManifestUnit& part, const std::string& name);

// Fills `out` with elements of a kind of a unit's part, from element `offset` on. Throws Error{kData} where one of its
// files has another type.
void read_slices(const formats::OpenCheckpoint& open, const formats::ManifestUnit& part,
                 const Kind& kind, std::int64_t offset, std::span<std::byte> out);

// Part of a unit on one of several tp ranks: elements [offset, offset + count) of one kind.
struct PartRange {
  std::size_t unit = 0;  // of the model's
  int part = 0;
  int parts = 1;
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

class StateReader {
 public:
  // Verifies every byte, of all files or of those in `only`. `specs` describe the model and outlive this. Throws
  // Error{kData}.
  StateReader(const Path& directory, const std::vector<model::UnitSpec>& specs,
              const std::optional<std::set<std::string>>& only = std::nullopt);

  const formats::Manifest& manifest() const { return open_.manifest; }
  bool has(std::size_t unit) const { return places_[unit] >= 0; }
  // Kinds of a unit, parameters first; empty for one that the checkpoint leaves out.
  std::vector<Kind> kinds(std::size_t unit) const;
  std::optional<Kind> kind(std::size_t unit, const std::string& name) const;
  // Fills `out` with the elements of the range, recut where other tp ranks wrote them, without further memory.
  void read(const PartRange& range, const Kind& kind, std::span<std::byte> out) const;
  // The whole parameter, or as much of another kind.
  std::vector<std::byte> read_whole(std::size_t unit, std::size_t param, const Kind& kind) const;

 private:
  // Elements [global, global + count) of a whole unit are [local, local + count) of a part of it.
  struct Run {
    std::int64_t global = 0;
    std::int64_t local = 0;
    std::int64_t count = 0;
    int part = 0;
  };
  const formats::ManifestUnit& part_of(std::size_t unit, int part) const;
  void read_global(std::size_t unit, std::int64_t global, std::int64_t count, const Kind& kind,
                   std::byte* out) const;
  static std::vector<Run> runs(const model::UnitSpec& spec, int part, int parts, bool owned);

  Path directory_;
  formats::OpenCheckpoint open_;
  const std::vector<model::UnitSpec>& specs_;
  int parts_ = 1;
  std::vector<int> places_;
  std::vector<std::vector<Run>> owned_;  // of each unit, over all its parts, ascending
};

}  // namespace trireme::convert
