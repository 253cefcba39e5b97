// The blocks of each family, made from cmake/families.cmake: `NAME_blocks` of each that this build has.
#pragma once

#include <span>

#include "trireme/config/families.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks {

struct FamilyBlocks {
  config::Family family;
  MakeBlocks make;
};

// Those that this build has.
std::span<const FamilyBlocks> family_blocks();

inline bool is_built(config::Family family) {
  return config::find_entry(family_blocks(), family) != nullptr;
}

}  // namespace trireme::blocks
