#include "trireme/model/blocks/families.h"

#include <array>

namespace trireme::blocks {

#define TRIREME_FAMILY(name, id) \
  Blocks name##_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks);
#include "trireme/families/blocks.inc"
#undef TRIREME_FAMILY

std::span<const FamilyBlocks> family_blocks() {
  static constexpr std::array kBlocks = {
#define TRIREME_FAMILY(name, id) FamilyBlocks{config::Family::id, name##_blocks},
#include "trireme/families/blocks.inc"
#undef TRIREME_FAMILY
  };
  return kBlocks;
}

}  // namespace trireme::blocks
