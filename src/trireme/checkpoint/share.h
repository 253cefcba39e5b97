// Share: a rank's message to the others about its part of a checkpoint; the manifest is made of all shares.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trireme/checkpoint/checkpoint.h"

namespace trireme::checkpoint {

struct Share {
  std::string error{};    // why this rank could not do its part
  std::string warning{};  // what else went wrong, the checkpoint being there
  int tp_rank = 0;
  formats::ManifestFile file{};                                  // no name: it has nothing to write
  std::vector<std::pair<int, formats::ManifestSlice>> slices{};  // by unit
};

// As text that exchanges carry, never empty.
std::string encode(const Share& share);
Share decode(const std::string& text);

// Tensors that rank `rank` writes of `slices`, with their files and names.
Share make_share(int rank, const exec::Units& units, const std::vector<exec::StateSlice>& slices,
                 const std::vector<model::UnitSpec>& specs);

formats::Manifest make_manifest(const Header& header, const exec::Units& units,
                                const std::vector<Share>& shares,
                                const std::vector<model::UnitSpec>& specs);

}  // namespace trireme::checkpoint
