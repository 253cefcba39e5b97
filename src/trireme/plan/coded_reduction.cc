#include "trireme/plan/coded_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trireme/plan/shard.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

using mesh::Axis;

std::vector<std::int64_t> CodedReduction::slices() const {
  const std::int64_t blocks = count / block;
  std::vector<std::int64_t> slices;
  for (int rank = 0; rank < ranks; ++rank)
    slices.push_back((blocks / ranks + (rank < blocks % ranks ? 1 : 0)) * block);
  return slices;
}

std::int64_t CodedReduction::residual_bytes() const {
  return sums.residual ? own() * count * static_cast<std::int64_t>(size_of(*sums.residual)) : 0;
}

std::int64_t CodedReduction::code_bytes(std::int64_t elements) const {
  return codec::coded_bytes(sums.codec, elements, block);
}

std::int64_t CodedReduction::back_bytes(std::int64_t elements) const {
  return sums.back ? codec::coded_bytes(*sums.back, elements, back_block)
                   : elements * static_cast<std::int64_t>(sizeof(float));
}

std::int64_t CodedReduction::buffers(int rank) const {
  const std::int64_t slice = slices()[rank];
  const std::int64_t codes = own() * code_bytes(count) + sums.senders * code_bytes(slice);
  return std::max(codes, sums.back && !scatters ? back_bytes(count) : 0);
}

CodedReduction coded_reduction(const PlanSet& plan, UnitId id) {
  const Unit& unit = plan.program.units[id];
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, unit);
  TRIREME_CHECK(sharing.coded, "sums of unit {} are not coded", unit.name);
  const UnitShare share = share_of(plan, id);
  const bool scatters = sharing.rest.empty();
  return {.sums = *plan.recipe.coded,
          .block = codec::block_of(plan.recipe.coded->codec, norm_chunk(unit.numel)),
          .back_block = codec::block_of(plan.recipe.coded->back.value_or(plan.recipe.coded->codec),
                                        norm_chunk(unit.numel)),
          .ranks = plan.mesh.degree(coded_axes(sharing)),
          .scatters = scatters,
          .count = scatters ? share.full : share.part};
}

int senders_of_rank(const PlanSet& plan, UnitId unit) {
  if (!codes(plan.recipe, plan.program.units[unit])) return 1;
  return coded_reduction(plan, unit).own();
}

std::int64_t residual_bytes(const PlanSet& plan, UnitId unit) {
  if (!has_residual(plan.recipe, plan.program.units[unit])) return 0;
  return coded_reduction(plan, unit).residual_bytes();
}

int sender_micro_batches(const PlanSet& plan, UnitId unit) {
  const int senders = senders_of_rank(plan, unit);
  return senders > 1 ? plan.recipe.micro_batches / senders : 0;
}

std::optional<std::string> mistake_in_coded(const mesh::Mesh& mesh, const Recipe& recipe) {
  if (!recipe.coded) return std::nullopt;
  const auto& [codec, senders, back, residual] = *recipe.coded;
  if (codec::needs_residual(codec) && !residual)
    return fmt::format("codec {} needs residuals", codec::print(codec));
  if (back && (codec::is_sparse(*back) || codec::needs_residual(*back)))
    return fmt::format("codec {} on the way back; use bf16, q8, q4 or f4", codec::print(*back));
  if (residual && residual != DType::kF32 && residual != DType::kBF16)
    return fmt::format("residuals in {}; use fp32 or bf16", name(*residual));
  for (const Axis axis : {Axis::kTp, Axis::kCp, Axis::kPp})
    if (mesh.degree(axis) > 1)
      return fmt::format("coded sums with {} {}; needs 1", mesh::name(axis), mesh.degree(axis));
  if (!recipe.canonical || recipe.grads != DType::kF32 || recipe.reduce ||
      recipe.offload.grads != Tier::kNone)
    return "coded sums need canonical sums of fp32 gradients in memory";
  const int shards = mesh.degree(Axis::kDpShard), replicas = mesh.degree(Axis::kDpReplicate);
  const bool two_levels = recipe.zero >= 1 && shards > 1 && replicas > 1;
  if (recipe.zero >= 2 && shards > 1 && replicas == 1)
    return fmt::format(
        "coded sums with ZeRO-{} and no replicas; needs dp_replicate above 1, or ZeRO-0 or 1",
        recipe.zero);
  if (two_levels && senders != replicas)
    return fmt::format("{} senders of {} replicas with shards; needs as many", senders, replicas);
  const int ranks = two_levels ? replicas : shards * replicas;
  const int all = recipe.micro_batches * shards * replicas / recipe.group;
  if (senders < 1 || senders % ranks != 0 || all % senders != 0 ||
      !std::has_single_bit(static_cast<unsigned>(all / senders)))
    return fmt::format(
        "{} senders on {} ranks that exchange, with {} sums of micro-batches; needs a multiple of "
        "the ranks, and a power of two of sums each",
        senders, ranks, all);
  return std::nullopt;
}

}  // namespace trireme::plan
