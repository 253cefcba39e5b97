#include "trireme/plan/coded_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "trireme/base/error.h"
#include "trireme/comm/codec/integer.h"
#include "trireme/plan/low_rank.h"
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
  return sums.residual ? residuals() * count * static_cast<std::int64_t>(size_of(*sums.residual))
                       : 0;
}

std::int64_t CodedReduction::code_bytes(std::int64_t elements) const {
  return codec::coded_bytes(sums.codec, elements, block);
}

int CodedReduction::sent_bits() const {
  return adds_on_way ? 8 * static_cast<int>(size_of(sum_type()))
                     : codec::integer_bits(sums.codec, own());
}

DType CodedReduction::sum_type() const {
  const int bits = codec::integer_bits(sums.codec, sums.senders);
  return bits <= 8 ? DType::kU8 : bits == 16 ? DType::kI16 : DType::kI32;
}

std::int64_t CodedReduction::exponents() const { return integers() ? count / block : 0; }

std::int64_t CodedReduction::decoded() const {
  return integers() ? count : sums.senders * slices().front();
}

std::int64_t CodedReduction::sent_bytes(std::int64_t elements) const {
  return integers() ? elements * sent_bits() / 8 : own() * code_bytes(elements);
}

std::int64_t CodedReduction::back_bytes(std::int64_t elements) const {
  if (sums.back) return codec::coded_bytes(*sums.back, elements, back_block);
  return elements * static_cast<std::int64_t>(size_of(integers() ? sum_type() : DType::kF32));
}

std::int64_t CodedReduction::received_bytes(int rank) const {
  if (!adds_on_way) return ranks * sent_bytes(slices()[rank]);
  return returns_integers() ? 0 : sent_bytes(slices()[rank]);
}

std::int64_t CodedReduction::buffers(int rank) const {
  const std::int64_t codes = exponents() + sent_bytes(count) + received_bytes(rank);
  return std::max(codes, sums.back && !scatters ? back_bytes(count) : 0);
}

namespace {

// Whether sums of several ranks travel, not only the ranks' own.
bool adds_by(algorithm::Kind kind) {
  return kind != algorithm::Kind::kAuto && kind != algorithm::Kind::kDirect &&
         kind != algorithm::Kind::kRingGather;
}

}  // namespace

CodedReduction coded_reduction(const PlanSet& plan, UnitId id) {
  const Unit& unit = plan.program.units[id];
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, unit);
  TRIREME_CHECK(sharing.coded, "sums of unit {} are not coded", unit.name);
  const UnitShare share = share_of(plan, id);
  const bool scatters = sharing.rest.empty();
  if (scatters && sharing.scatters_each) {
    CodedSums sums = *plan.recipe.coded;
    sums.senders /= plan.recipe.micro_batches;
    if (sums.residuals == 0) sums.residuals = sums.senders;
    const int within = plan.mesh.degree(sharing.shards) / sums.senders;
    return {.sums = sums,
            .block = codec::block_of(sums.codec, norm_chunk(unit.numel)),
            .ranks = sums.senders,
            .within = within,
            .scatters = true,
            .count = sums.senders * share.part,
            .gap = (within - 1) * share.part};
  }
  CodedSums sums = *plan.recipe.coded;
  if (sums.residuals == 0) sums.residuals = sums.senders;
  return {.sums = sums,
          .block = codec::block_of(sums.codec, norm_chunk(unit.numel)),
          .back_block = codec::block_of(sums.back.value_or(sums.codec), norm_chunk(unit.numel)),
          .ranks = plan.mesh.degree(coded_axes(sharing)),
          .scatters = scatters,
          .count = scatters ? share.full : share.part,
          .adds_on_way = codec::is_integer(sums.codec) && adds_by(plan.recipe.algorithm)};
}

bool codes_each_micro_batch(const mesh::Mesh& mesh, const Recipe& recipe) {
  return recipe.coded && recipe.zero >= 2 && mesh.degree(Axis::kDpShard) > 1 &&
         mesh.degree(Axis::kDpReplicate) == 1;
}

int within_of(const mesh::Mesh& mesh, const Recipe& recipe, const Instr& line) {
  if (!line.coded || line.mb < 0) return 0;
  const int within = mesh.degree(line.axes) * recipe.micro_batches / recipe.coded->senders;
  return within > 1 ? within : 0;
}

int senders_of_rank(const PlanSet& plan, UnitId unit) {
  if (!codes(plan.recipe, plan.program.units[unit])) return 1;
  return coded_reduction(plan, unit).own();
}

std::int64_t residual_elements(const PlanSet& plan, int rank, UnitId unit) {
  if (!has_residual(plan.recipe, plan.program.units[unit])) return 0;
  if (!sums_at_low_rank(plan.recipe)) return coded_reduction(plan, unit).count;
  return low_rank(plan, unit).owner(low_rank_place(plan, rank, unit)).held;
}

std::int64_t residual_bytes(const PlanSet& plan, int rank, UnitId unit) {
  if (!has_residual(plan.recipe, plan.program.units[unit])) return 0;
  const CodedReduction reduction = coded_reduction(plan, unit);
  const auto width = static_cast<std::int64_t>(size_of(*reduction.sums.residual));
  const std::int64_t starts =
      sums_at_low_rank(plan.recipe)
          ? low_rank(plan, unit).starts * static_cast<std::int64_t>(sizeof(float))
          : 0;
  return reduction.residuals() * residual_elements(plan, rank, unit) * width + starts;
}

std::vector<ResidualRange> residual_ranges(const PlanSet& plan, int rank, UnitId id) {
  if (sums_at_low_rank(plan.recipe))
    return low_rank(plan, id).owner(low_rank_place(plan, rank, id)).ranges;
  const CodedReduction reduction = coded_reduction(plan, id);
  const std::int64_t part = share_of(plan, id).part, numel = plan.program.units[id].numel;
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, plan.program.units[id]);
  const int shard = plan.mesh.index_in_group(rank, sharing.shards);
  // Columns of neighbours lie apart in the unit; all else is contiguous.
  const bool apart = reduction.gap > 0;
  const std::int64_t range = apart ? part : reduction.count;
  const std::int64_t first = apart ? shard % reduction.within * part
                             : reduction.count == share_of(plan, id).full ? 0
                                                                          : shard * part;
  std::vector<ResidualRange> ranges;
  for (std::int64_t at = 0; at < reduction.count; at += range) {
    const std::int64_t begin = first + at + at / range * reduction.gap;
    const std::int64_t end = std::min(begin + range, numel);
    if (begin < end) ranges.push_back({.begin = begin, .end = end, .at = at});
  }
  return ranges;
}

int residual_number(const PlanSet& plan, int rank, UnitId id, int index) {
  const CodedReduction reduction = coded_reduction(plan, id);
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, plan.program.units[id]);
  const int in_group = plan.mesh.index_in_group(rank, coded_axes(sharing));
  if (reduction.within == 0)  // a step codes once
    return in_group * reduction.residuals() + index;
  return index * reduction.ranks + in_group / reduction.within;
}

int sender_micro_batches(const PlanSet& plan, UnitId unit) {
  const int senders = senders_of_rank(plan, unit);
  return senders > 1 ? plan.recipe.micro_batches / senders : 0;
}

int host_ranks(const PlanSet& plan) {
  const Recipe& recipe = plan.recipe;
  if (recipe.gather && recipe.gather->within > 0) return recipe.gather->within;
  if (!recipe.coded) return 0;
  const int shards = plan.mesh.degree(Axis::kDpShard),
            replicas = plan.mesh.degree(Axis::kDpReplicate);
  if (codes_each_micro_batch(plan.mesh, recipe))
    return shards * recipe.micro_batches / recipe.coded->senders;
  return recipe.zero >= 1 && shards > 1 && replicas > 1 ? shards : 0;
}

namespace {

// Of sums at low rank, over so many ranks. A sum of senders is added on each rank first.
std::optional<std::string> mistake_in_low_rank(int ranks, const CodedSums& coded) {
  if (coded.back) return "a codec of the way back, on which factors travel";
  if (coded.residuals > 0) return "a number of residuals, of which every sender has one";
  if (ranks > 1 && !std::has_single_bit(static_cast<unsigned>(coded.senders / ranks)))
    return fmt::format("{} senders on {} ranks that add factors; needs a power of two on each",
                       coded.senders, ranks);
  return std::nullopt;
}

// Of senders that are blocks of shards.
std::optional<std::string> mistake_in_each(int shards, const Recipe& recipe) {
  const CodedSums& coded = *recipe.coded;
  if (coded.back) return "a codec of the way back with codes of every micro-batch";
  if (sums_at_low_rank(recipe))
    return "sums of every micro-batch at low rank; needs those of a step";
  if (recipe.group > 1)
    return fmt::format("codes of every micro-batch with groups of {}; needs 1", recipe.group);
  const int of_each = coded.senders / recipe.micro_batches;
  if (!std::has_single_bit(static_cast<unsigned>(shards)) || of_each < 1 ||
      coded.senders % recipe.micro_batches != 0 || shards % of_each != 0)
    return fmt::format(
        "{} senders of {} micro-batches over {} shards; needs a power of two of shards, and for "
        "each micro-batch a divisor of them",
        coded.senders, recipe.micro_batches, shards);
  if (coded.residuals % of_each != 0)
    return fmt::format("{} residuals of {} senders of each micro-batch; needs a multiple of them",
                       coded.residuals, of_each);
  return std::nullopt;
}

}  // namespace

namespace {

// Of senders that share exponents: all of a step code at the same time.
std::optional<std::string> mistake_in_integers(const mesh::Mesh& mesh, const Recipe& recipe) {
  const CodedSums& coded = *recipe.coded;
  if (!codec::is_integer(coded.codec)) return std::nullopt;
  const std::string name = codec::print(coded.codec);
  if (coded.senders > codec::most_senders(coded.codec))
    return fmt::format("{} senders of {}, whose sum needs more than 32 bits; needs at most {}",
                       coded.senders, name, codec::most_senders(coded.codec));
  if (codes_each_micro_batch(mesh, recipe))
    return fmt::format(
        "codec {} with shards that are exchanged every micro-batch; needs replicas "
        "or ZeRO-1",
        name);
  if (coded.residuals > 0 && coded.residuals != coded.senders)
    return fmt::format("{} residuals of {} senders of {}; needs as many", coded.residuals,
                       coded.senders, name);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> mistake_in_coded(const mesh::Mesh& mesh, const Recipe& recipe) {
  if (!recipe.coded) return std::nullopt;
  const auto& [codec, senders, back, residual, residuals] = *recipe.coded;
  if (codec::needs_residual(codec) && !residual)
    return fmt::format("codec {} needs residuals", codec::print(codec));
  if (const auto wrong = mistake_in_integers(mesh, recipe)) return wrong;
  if (back && !codec::is_plain(*back))
    return fmt::format("codec {} on the way back; use bf16, q8, q4 or f4", codec::print(*back));
  if (residual && residual != DType::kF32 && residual != DType::kBF16)
    return fmt::format("residuals in {}; use fp32 or bf16", name(*residual));
  if (residuals < 0 || (residuals > 0 && (!residual || senders % residuals != 0)))
    return fmt::format("{} residuals of {} senders; needs a divisor of them and a type", residuals,
                       senders);
  for (const Axis axis : {Axis::kTp, Axis::kCp, Axis::kPp})
    if (mesh.degree(axis) > 1)
      return fmt::format("coded sums with {} {}; needs 1", mesh::name(axis), mesh.degree(axis));
  if (!recipe.canonical || recipe.grads != DType::kF32 || recipe.reduce ||
      recipe.offload.grads != Tier::kNone)
    return "coded sums need canonical sums of fp32 gradients in memory";
  const int shards = mesh.degree(Axis::kDpShard), replicas = mesh.degree(Axis::kDpReplicate);
  const bool two_levels = recipe.zero >= 1 && shards > 1 && replicas > 1;
  if (codes_each_micro_batch(mesh, recipe)) return mistake_in_each(shards, recipe);
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
  if (sums_at_low_rank(recipe)) return mistake_in_low_rank(ranks, *recipe.coded);
  if (residuals > 0 && residuals < senders && ranks > 1)
    return fmt::format("{} residuals of {} senders on {} ranks; needs a residual for each sender",
                       residuals, senders, ranks);
  return std::nullopt;
}

}  // namespace trireme::plan
