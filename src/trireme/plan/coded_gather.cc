#include "trireme/plan/coded_gather.h"

#include <fmt/format.h>

#include "trireme/base/error.h"
#include "trireme/plan/shard.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

using mesh::Axis;

GatheredCodes gathered_codes(const PlanSet& plan, UnitId id) {
  const Unit& unit = plan.program.units[id];
  TRIREME_CHECK(gathers_codes(plan.recipe, unit), "parameters of unit {} are not coded", unit.name);
  const CodedGather& gather = *plan.recipe.gather;
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, unit);
  const std::int64_t block = codec::block_of(gather.codec, norm_chunk(unit.numel));
  return {.codec = gather.codec,
          .block = block,
          .part = codec::coded_bytes(gather.codec, share_of(plan, id).part, block),
          .shards = plan.mesh.degree(sharing.shards),
          .within = sharing.gathers ? gather.within : 0,
          .rests = sharing.gathers};
}

std::optional<std::string> mistake_in_gather(const mesh::Mesh& mesh, const Recipe& recipe) {
  if (!recipe.gather) return std::nullopt;
  const auto& [codec, within] = *recipe.gather;
  if (!codec::is_plain(codec) || codec.stochastic)
    return fmt::format("codec {} of parameters; use bf16, q8, q4 or f4", codec::print(codec));
  for (const Axis axis : {Axis::kTp, Axis::kCp})
    if (mesh.degree(axis) > 1)
      return fmt::format("coded gathers with {} {}; needs 1", mesh::name(axis), mesh.degree(axis));
  if (recipe.master != DType::kF32) return "coded gathers need masters in fp32";
  if (recipe.offload.optimizer != Tier::kNone || recipe.offload.params != Tier::kNone)
    return "coded gathers need masters and parameters in memory";
  const int shards = mesh.degree(Axis::kDpShard);
  if (within < 0 || (within > 0 && (recipe.zero < 3 || shards % within != 0)))
    return fmt::format(
        "codes kept within {} neighbours, ZeRO-{} and {} shards; needs ZeRO-3 and a divisor of the "
        "shards, or 0",
        within, recipe.zero, shards);
  return std::nullopt;
}

}  // namespace trireme::plan
