// A checkpoint as it is read: its manifest, every byte verified, and the elements of its units.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::checkpoint {

// Whether what is read must be of the type it is wanted in.
enum class Types { kSame, kConverted };

class Stored {
 public:
  // Throws Error{kData} for what is no whole checkpoint.
  explicit Stored(const Path& directory);
  // Of what some of its files hold, and those alone need be there.
  Stored(const Path& directory, const std::set<std::string>& files);

  const Path& directory() const { return directory_; }
  const formats::Manifest& manifest() const { return open_.manifest; }
  // Parts in which every unit stands, one after the other.
  int tp() const {
    return open_.manifest.units.empty() ? 1 : static_cast<int>(open_.manifest.units[0].tp);
  }
  std::size_t units() const { return open_.manifest.units.size() / static_cast<std::size_t>(tp()); }
  // The part-th part of the unit-th unit.
  const formats::ManifestUnit& unit(std::size_t unit, int part) const {
    return open_.manifest
        .units[unit * static_cast<std::size_t>(tp()) + static_cast<std::size_t>(part)];
  }

  // Fills elements [offset, offset + out.numel()) of one state of a unit's part. Throws Error{kData} if there is
  // no such state, or in another type.
  void read(std::size_t unit, int part, const std::string& kind, std::int64_t offset,
            const at::Tensor& out, Types types = Types::kSame) const;

 private:
  void copy_overlap(const formats::ManifestSlice& slice, std::int64_t offset, const at::Tensor& out,
                    Types types) const;

  Path directory_;
  formats::OpenCheckpoint open_;
};

}  // namespace trireme::checkpoint
