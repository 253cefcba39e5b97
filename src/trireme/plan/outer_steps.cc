#include "trireme/plan/outer_steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/plan/shard.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {
namespace {

bool is_sent(const OuterSteps& outer, int fragment, std::int64_t step) {
  const std::int64_t first = fragment * outer.every / outer.fragments;
  return step >= outer.every && (step - first) % outer.every == 0;
}

// Bytes of one number for every parameter that the rank steps.
std::int64_t master_bytes_of(const PlanSet& plan, UnitId unit) {
  return share_of(plan, unit).part * static_cast<std::int64_t>(size_of(plan.recipe.master));
}

// Differences, then means, and their codes: those of the rank whose slice is largest.
std::int64_t on_way_bytes(const PlanSet& plan, UnitId unit,
                          const std::optional<CodedReduction>& coded) {
  return master_bytes_of(plan, unit) + (coded ? coded->buffers(0) : 0);
}

// A layer, or a part of one.
bool is_layer(const Program& program, const Unit& unit) {
  if (unit.part_of >= 0) return is_layer(program, program.units[unit.part_of]);
  return !unit.name.empty() && unit.name.back() >= '0' && unit.name.back() <= '9';
}

}  // namespace

std::int64_t last_sent(const OuterSteps& outer, int fragment, std::int64_t step,
                       std::int64_t merged) {
  for (std::int64_t at = step - 1; at > merged; --at)
    if (is_sent(outer, fragment, at)) return at;
  return merged;
}

OuterWork outer_work(const OuterSteps& outer, std::int64_t step, bool last, std::int64_t merged) {
  OuterWork work{.at_once = last || outer.delay == 0};
  for (int fragment = 0; fragment < outer.fragments; ++fragment) {
    if (last || is_sent(outer, fragment, step)) work.sent.push_back(fragment);
    bool ends = false;
    for (std::int64_t sent = step - outer.delay; sent < (last ? step : step - outer.delay + 1);
         ++sent)
      ends = ends || (sent > merged && outer.delay > 0 && is_sent(outer, fragment, sent));
    if (ends) work.applied.push_back(fragment);
  }
  if (work.sent.empty()) work.at_once = false;
  return work;
}

std::vector<int> fragments_of_units(const Program& program, int fragments) {
  std::vector<int> of_unit(program.units.size(), -1);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(fragments));
  const auto join = [&](std::size_t unit, int fragment) {
    of_unit[unit] = fragment;
    sizes[static_cast<std::size_t>(fragment)] += program.units[unit].numel;
  };
  std::vector<std::size_t> others;
  int layers = 0;
  for (std::size_t unit = 0; unit < program.units.size(); ++unit) {
    if (!program.units[unit].trainable) continue;
    const UnitId whole = program.units[unit].part_of;
    if (is_layer(program, program.units[unit]))
      join(unit, whole >= 0 ? of_unit[static_cast<std::size_t>(whole)] : layers++ % fragments);
    else
      others.push_back(unit);
  }
  std::ranges::stable_sort(others, std::ranges::greater(),
                           [&](std::size_t unit) { return program.units[unit].numel; });
  for (const std::size_t unit : others)
    join(unit, static_cast<int>(std::ranges::min_element(sizes) - sizes.begin()));
  return of_unit;
}

bool has_outer(const Recipe& recipe, const Unit& unit) { return recipe.outer && unit.trainable; }

bool merges_direction(const Program& program, const Recipe& recipe, const Unit& unit) {
  return has_outer(recipe, unit) && recipe.outer->direction && is_layer(program, unit);
}

std::optional<CodedReduction> coded_merge(const PlanSet& plan, UnitId id) {
  const Unit& unit = plan.program.units[id];
  if (!has_outer(plan.recipe, unit) || !plan.recipe.outer->codec || unit.numel < kLeastCoded)
    return std::nullopt;
  const OuterSteps& outer = *plan.recipe.outer;
  const std::int64_t chunk = norm_chunk(unit.numel);
  return CodedReduction{.sums = {.codec = *outer.codec,
                                 .senders = outer.islands,
                                 .back = outer.back,
                                 .residual = outer.residual,
                                 .residuals = outer.islands},
                        .block = codec::block_of(*outer.codec, chunk),
                        .back_block = codec::block_of(outer.back.value_or(*outer.codec), chunk),
                        .ranks = outer.islands,
                        .count = share_of(plan, id).part};
}

double share_to_owners(const CodedReduction& coded) {
  const auto there = static_cast<double>(coded.code_bytes(coded.count));
  return there / (there + static_cast<double>(coded.back_bytes(coded.count)));
}

int steps_to_owners(int delay, double share) {
  if (delay < 2 || share >= 1) return delay;
  return std::clamp(static_cast<int>(std::lround(delay * share)), 1, delay - 1);
}

std::int64_t outer_bytes(const PlanSet& plan, UnitId unit) {
  if (!has_outer(plan.recipe, plan.program.units[unit])) return 0;
  const std::optional<CodedReduction> coded = coded_merge(plan, unit);
  return 2 * master_bytes_of(plan, unit) + (coded ? coded->residual_bytes() : 0) +
         (plan.recipe.outer->delay > 0 ? on_way_bytes(plan, unit, coded) : 0);
}

std::int64_t merge_bytes(const PlanSet& plan, UnitId unit) {
  if (!has_outer(plan.recipe, plan.program.units[unit]) || plan.recipe.outer->delay > 0) return 0;
  return on_way_bytes(plan, unit, coded_merge(plan, unit));
}

std::optional<std::string> mistake_in_outer(const mesh::Mesh& mesh, const Recipe& recipe) {
  const int islands = mesh.degree(mesh::Axis::kIsland);
  if (!recipe.outer)
    return islands == 1 ? std::nullopt
                        : std::optional(fmt::format("{} islands that merge nothing", islands));
  const OuterSteps& outer = *recipe.outer;
  if (outer.islands != islands)
    return fmt::format("{} islands on a mesh with {}; needs as many", outer.islands, islands);
  if (outer.every < 1 || outer.fragments < 1 || outer.fragments > outer.every)
    return fmt::format("{} fragments every {} steps; needs 1 or more of both, and a step each",
                       outer.fragments, outer.every);
  if (outer.delay < 0 || 2 * outer.delay > outer.every)
    return fmt::format("delay {}; needs 0 to half of the {} steps of a round", outer.delay,
                       outer.every);
  if (recipe.master != DType::kF32 && recipe.master != DType::kF64)
    return fmt::format("outer weights in {}; needs fp32 or fp64 masters", name(recipe.master));
  if (outer.codec && recipe.master != DType::kF32)
    return "islands that exchange codes need fp32 masters";
  if (outer.codec ? codec::needs_residual(*outer.codec) && !outer.residual
                  : outer.back || outer.residual)
    return "codes of islands need a codec, and residuals if it is sign or topk";
  if (outer.codec && codec::is_integer(*outer.codec))
    return fmt::format("codec {} of islands, which share no exponents; use bf16, q8, q4 or f4",
                       codec::print(*outer.codec));
  if (outer.codec && codec::is_low_rank(*outer.codec))
    return fmt::format("codec {} of islands; use bf16, q8, q4, f4, sign or topk",
                       codec::print(*outer.codec));
  if (outer.back && !codec::is_plain(*outer.back))
    return fmt::format("codec {} on the way back; use bf16, q8, q4 or f4",
                       codec::print(*outer.back));
  if (const int tp = mesh.degree(mesh::Axis::kTp); outer.direction && tp > 1)
    return fmt::format("norms of islands' layers with tp {}; needs 1", tp);
  if (recipe.coded) return "islands that merge weights do not exchange coded gradients as well";
  if (recipe.offload.optimizer != Tier::kNone || recipe.offload.params != Tier::kNone)
    return "weights that islands merge stay in memory; needs no offloaded parameters or optimizer";
  const auto listed = [&](const std::vector<int>& fragments) {
    return std::ranges::is_sorted(fragments) &&
           std::ranges::adjacent_find(fragments) == fragments.end() &&
           std::ranges::all_of(fragments,
                               [&](int one) { return one >= 0 && one < outer.fragments; });
  };
  if (!listed(outer.work.sent) || !listed(outer.work.applied))
    return fmt::format("a step merges other fragments than 0 to {}", outer.fragments - 1);
  const OuterWork& work = outer.work;
  if (work.at_once ? work.sent.empty() : outer.delay == 0 && !work.sent.empty())
    return "a step without delay applies what it sends";
  if (outer.delay == 0 && !work.applied.empty())
    return "without delay nothing of earlier steps is on its way";
  return std::nullopt;
}

}  // namespace trireme::plan
