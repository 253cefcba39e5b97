#include "trireme/exec/units/outer_jobs.h"

#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/exec/units/coded_slices.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/outer_steps.h"

namespace trireme::exec {

std::vector<OuterPart> OuterJobs::parts() const {
  const plan::PlanSet& plan = units_.plan_;
  const int rank = units_.rank_, stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
  std::vector<OuterPart> parts;
  for (std::size_t index = 0; index < units_.units_.size(); ++index) {
    if (units_.units_[index] == nullptr || !units_.units_[index]->outer.weights) continue;
    const UnitState& unit = *units_.units_[index];
    const auto id = static_cast<plan::UnitId>(index);
    const auto coded = plan::coded_merge(plan, id);
    const std::int64_t block = coded ? coded->block : 1;
    const std::int64_t real = std::min(unit.part_count, unit.numel - unit.part_begin);
    if (real <= 0) continue;
    parts.push_back({.unit = id,
                     .begin = unit.part_begin,
                     .count = blocks(real, block) * block,
                     .sends = plan::stages_of_unit(plan.program, id)[0] == stage &&
                              plan.mesh.index_in_group(rank, unit.sharing.rest) == 0});
  }
  return parts;
}

std::vector<std::byte> OuterJobs::codes(const OuterPart& part, const codec::Draws& draws,
                                        int island) {
  at::NoGradGuard no_grad;
  UnitState& unit = units_.at(part.unit);
  MemoryCount& memory = *units_.memory_;
  OuterState& outer = unit.outer;
  const Flat difference(memory, unit.part_count, outer.weights.type());
  difference.tensor(0, unit.part_count)
      .copy_(outer.weights.tensor(0, unit.part_count))
      .sub_(unit.stepped(0, unit.part_count));
  const auto coded = plan::coded_merge(units_.plan_, part.unit);
  if (!coded) {
    const at::Tensor values = difference.tensor(0, part.count).cpu().contiguous();
    std::vector<std::byte> bytes(static_cast<std::size_t>(values.nbytes()));
    std::memcpy(bytes.data(), values.data_ptr(), bytes.size());
    return bytes;
  }
  const CodedSlices slices(*coded, unit.part_begin, unit.numel, draws, island);
  const Flat codes(memory, slices.sent_bytes()[0], DType::kU8);
  const std::span<const Flat> sums(&difference, 1);
  if (outer.residual) {
    if (!outer.next_residual)
      outer.next_residual = Flat(memory, unit.part_count, outer.residual.type());
    slices.encode(sums, outer.residual, outer.next_residual, /*scale=*/1, /*earlier=*/0, codes);
  } else {
    slices.encode(sums, codes);
  }
  const auto* begin = static_cast<const std::byte*>(codes.data());
  return {begin, begin + coded->code_bytes(part.count)};
}

void OuterJobs::merge(const OuterPart& part, std::span<const std::byte> mean,
                      const OuterMerge& merge) {
  at::NoGradGuard no_grad;
  UnitState& unit = units_.at(part.unit);
  MemoryCount& memory = *units_.memory_;
  OuterState& outer = unit.outer;
  const auto coded = plan::coded_merge(units_.plan_, part.unit);
  at::Tensor values = at::empty({part.count}, at::kFloat);
  const std::span<float> floats(values.data_ptr<float>(), static_cast<std::size_t>(part.count));
  if (coded && coded->sums.back) {
    codec::decode(*coded->sums.back,
                  {.block = coded->back_block,
                   .first = part.begin / coded->back_block,
                   .real = std::clamp<std::int64_t>(unit.numel - part.begin, 0, part.count)},
                  {}, mean, floats);
  } else {
    TRIREME_CHECK(mean.size() == floats.size_bytes(), "a mean of {} bytes for {} elements",
                  mean.size(), floats.size());
    std::memcpy(floats.data(), mean.data(), mean.size());
  }
  if (!outer.mean) outer.mean = Flat(memory, unit.part_count, outer.weights.type());
  outer.mean.zero();
  outer.mean.tensor(0, part.count).copy_(values);
  const bool shifts = merge.weights == OuterMerge::Weights::kShift;
  at::Tensor before;
  if (shifts) before = outer.weights.tensor(0, unit.part_count).clone();
  step_outer(outer, unit.part_count, units_.plan_.recipe.outer.value());
  unit.keep_in_bounds(0, outer.weights.tensor(0, unit.part_count));
  const double blend = merge.weights == OuterMerge::Weights::kBlend ? merge.blend : 0;
  unit.change_stepped([&](std::int64_t begin, const at::Tensor& stepped) {
    const at::Tensor merged = outer.weights.tensor(begin, stepped.numel());
    if (shifts)
      stepped.add_(merged.sub(before.narrow(0, begin, stepped.numel())));
    else if (blend == 0)
      stepped.copy_(merged);
    else
      stepped.mul_(blend).add_(merged.mul(1 - blend));
  });
  unit.follow_stepped();
  if (merge.sent && outer.residual) outer.residual = std::move(outer.next_residual);
  if (merge.lost && outer.residual) outer.residual.zero();
  if (plan::merge_bytes(units_.plan_, part.unit) > 0) outer.mean = Flat();
}

}  // namespace trireme::exec
