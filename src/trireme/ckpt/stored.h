// A checkpoint as it is read: its manifest, every byte verified, and the elements of its units.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

#include "trireme/base/fs.h"
#include "trireme/formats/manifest.h"
#include "trireme/formats/safetensors.h"

namespace trireme::ckpt {

// Whether what is read must be of the type it is wanted in.
enum class Types { kSame, kConverted };

class Stored {
 public:
  // Throws Error{kData} for what is no whole checkpoint.
  explicit Stored(const Path& directory);

  const Path& directory() const { return directory_; }
  const formats::Manifest& manifest() const { return manifest_; }
  // Parts in which every unit stands, one after the other.
  int tp() const { return manifest_.units.empty() ? 1 : static_cast<int>(manifest_.units[0].tp); }
  std::size_t units() const { return manifest_.units.size() / static_cast<std::size_t>(tp()); }
  // The part-th part of the unit-th unit.
  const formats::ManifestUnit& unit(std::size_t unit, int part) const {
    return manifest_.units[unit * static_cast<std::size_t>(tp()) + static_cast<std::size_t>(part)];
  }

  // Fills elements [offset, offset + out.numel()) of one state of a unit's part. Throws Error{kData} if there is
  // no such state, or in another type.
  void read(std::size_t unit, int part, const std::string& kind, std::int64_t offset,
            const at::Tensor& out, Types types = Types::kSame) const;

 private:
  void copy_overlap(const formats::ManifestSlice& slice, std::int64_t offset, const at::Tensor& out,
                    Types types) const;

  Path directory_;
  formats::Manifest manifest_;
  std::map<std::string, formats::SafetensorsFile> files_;
};

}  // namespace trireme::ckpt
