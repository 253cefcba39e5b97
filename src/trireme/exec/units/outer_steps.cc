// Outer steps: units whose weights islands merge (plan/outer_steps.h).
#include "trireme/plan/outer_steps.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/coded_slices.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kMerged = 1 << 16;  // elements whose temporaries exist at a time

}  // namespace

void step_outer(const OuterState& outer, std::int64_t count, const plan::OuterSteps& steps) {
  for (std::int64_t begin = 0; begin < count; begin += kMerged) {
    const std::int64_t length = std::min(kMerged, count - begin);
    const at::Tensor mean = outer.mean.tensor(begin, length);
    const at::Tensor velocity = outer.velocity.tensor(begin, length);
    velocity.mul_(steps.momentum).add_(mean);
    outer.weights.tensor(begin, length)
        .sub_(velocity.mul(steps.momentum).add_(mean).mul_(steps.lr));
  }
}

namespace {

CodedSlices outer_slices_of(const plan::CodedReduction& coded, const UnitState& unit, int rank) {
  return {coded, unit.part_begin, unit.numel, unit.outer.draws, rank};
}

// Each owner of a slice adds all islands' codes of it, which have their weights, and sends the mean to the others.
void return_mean(const plan::CodedReduction& coded, UnitState& unit, comm::Group& group,
                 MemoryCount& memory) {
  OuterState& outer = unit.outer;
  std::exchange(outer.exchange, comm::Ticket()).wait();
  const CodedSlices slices = outer_slices_of(coded, unit, group.rank());
  slices.add(group.rank(), outer.received,
             static_cast<float*>(outer.mean.at(slices.first(group.rank()))));
  outer.sent = Flat();
  outer.received = Flat();
  outer.returning = send_result(coded, slices, group, memory, outer.mean);
}

// Numbers of all ranks of the group, rank by rank, through memory where its buffers are.
std::vector<double> gather_numbers(comm::Group& group, const std::vector<double>& own,
                                   const at::Device& device) {
  const at::Tensor mine = at::tensor(own, at::TensorOptions().dtype(at::kDouble)).to(device);
  const at::Tensor all = at::empty({group.size() * mine.numel()}, mine.options());
  group.all_gather(comm::buffer(mine), comm::buffer(all)).wait();
  const at::Tensor here = all.cpu();
  return {here.data_ptr<double>(), here.data_ptr<double>() + here.numel()};
}

// The mean of differences gets the mean of their norms, unless it vanishes. Norms are added chunk by chunk in the unit's
// order, so shards inside an island change no bits.
void lengthen_mean(UnitState& unit, const Groups& groups) {
  OuterState& outer = unit.outer;
  const at::Device device = outer.mean.device();
  std::vector<double> sums = std::exchange(outer.square_sums, {});
  const std::size_t chunks = sums.size();
  const std::vector<double> of_mean = unit.chunk_square_sums(outer.mean);
  sums.insert(sums.end(), of_mean.begin(), of_mean.end());
  if (!unit.sharing.shards.empty())
    sums = gather_numbers(groups.over(unit.sharing.shards), sums, device);
  double difference = 0, mean = 0;
  for (std::size_t i = 0; i < sums.size(); ++i)
    (i / chunks % 2 == 0 ? difference : mean) += sums[i];
  double norms = 0;
  for (const double norm :
       gather_numbers(groups.over(unit.sharing.islands), {std::sqrt(difference)}, device))
    norms += norm;
  const double factor = norms / std::sqrt(mean);
  if (std::isfinite(factor)) outer.mean.tensor(0, unit.part_count).mul_(factor);
}

}  // namespace

void Units::allocate_outer(plan::UnitId id, UnitState& unit) {
  if (!plan::has_outer(plan_.recipe, plan_.program.units[id])) return;
  for (Flat* flat : {&unit.outer.weights, &unit.outer.velocity, &unit.outer.mean}) {
    if (flat == &unit.outer.mean && plan::merge_bytes(plan_, id) > 0) break;
    *flat = Flat(*memory_, unit.part_count, plan_.recipe.master);
    flat->zero();
  }
  const std::optional<plan::CodedReduction> coded = plan::coded_merge(plan_, id);
  if (!coded || !coded->sums.residual) return;
  unit.outer.residual = Flat(*memory_, unit.part_count, *coded->sums.residual);
  unit.outer.residual.zero();
}

void Units::outer_reduce_begin(plan::UnitId id, const CodedArgs& args) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  OuterState& outer = unit.outer;
  finish_outer_exchange(id);
  if (!outer.mean) outer.mean = Flat(*memory_, unit.part_count, outer.weights.type());
  for (std::int64_t begin = 0; begin < unit.part_count; begin += kMerged) {
    const std::int64_t count = std::min(kMerged, unit.part_count - begin);
    outer.mean.tensor(begin, count)
        .copy_(outer.weights.tensor(begin, count))
        .sub_(unit.stepped(begin, count))
        .mul_(args.island.value_or(1.0 / plan_.recipe.outer->islands));
  }
  if (plan::merges_direction(plan_.program, plan_.recipe, plan_.program.units[id]))
    outer.square_sums = unit.chunk_square_sums(outer.mean);
  if (plan::coded_merge(plan_, id)) return send_outer_codes(id, args);
  outer.exchange =
      groups_.over(unit.sharing.islands).all_reduce(outer.mean.buffer(), comm::Reduce::kSum);
}

// The residual is replaced at once, because a difference that is sent is always applied.
void Units::send_outer_codes(plan::UnitId id, const CodedArgs& args) {
  UnitState& unit = at(id);
  OuterState& outer = unit.outer;
  comm::Group& group = groups_.over(unit.sharing.islands);
  const plan::CodedReduction coded = plan::coded_merge(plan_, id).value();
  outer.draws = codec::draws_of(args.seed, static_cast<std::uint64_t>(args.update), /*sender=*/0,
                                hash64(unit.spec->name));
  outer.draws.unbiased = !outer.residual;
  const CodedSlices slices = outer_slices_of(coded, unit, group.rank());
  const std::vector<std::int64_t> to = slices.sent_bytes();
  const std::vector<std::int64_t> from(to.size(), to[group.rank()]);
  outer.sent = Flat(*memory_, std::accumulate(to.begin(), to.end(), std::int64_t{0}), DType::kU8);
  outer.received =
      Flat(*memory_, std::accumulate(from.begin(), from.end(), std::int64_t{0}), DType::kU8);
  const std::span<const Flat> difference(&outer.mean, 1);
  if (outer.residual)
    slices.encode(difference, outer.residual, outer.residual, /*scale=*/1, /*earlier=*/0,
                  outer.sent);
  else
    slices.encode(difference, outer.sent);
  outer.exchange = group.all_to_all(outer.sent.buffer(), to, outer.received.buffer(), from);
  outer.sent_at = args.step;
}

void Units::return_outer_means(std::int64_t step) {
  at::NoGradGuard no_grad;
  for (std::size_t index = 0; index < units_.size(); ++index) {
    UnitState* const unit = units_[index].get();
    if (unit == nullptr || !unit->outer.received) continue;
    const plan::CodedReduction coded =
        plan::coded_merge(plan_, static_cast<plan::UnitId>(index)).value();
    const int there =
        plan::steps_to_owners(plan_.recipe.outer->delay, plan::share_to_owners(coded));
    if (step > unit->outer.sent_at + there)
      return_mean(coded, *unit, groups_.over(unit->sharing.islands), *memory_);
  }
}

void Units::finish_outer_exchange(plan::UnitId id) const {
  UnitState& unit = at(id);
  OuterState& outer = unit.outer;
  std::exchange(outer.exchange, comm::Ticket()).wait();
  if (outer.received || outer.returning) {
    const plan::CodedReduction coded = plan::coded_merge(plan_, id).value();
    comm::Group& group = groups_.over(unit.sharing.islands);
    if (outer.received) return_mean(coded, unit, group, *memory_);
    take_result(outer_slices_of(coded, unit, group.rank()), group.size(), *outer.returning,
                outer.mean);
    outer.returning.reset();
  }
  if (!outer.square_sums.empty()) lengthen_mean(unit, groups_);
}

// What is sent and applied in one step leaves weights equal to the outer weights.
void Units::outer_step(plan::UnitId id, bool at_once) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  OuterState& outer = unit.outer;
  const plan::OuterSteps& steps = plan_.recipe.outer.value();
  const double blend = at_once ? 0 : steps.blend;
  finish_outer_exchange(id);
  step_outer(outer, unit.part_count, steps);
  unit.keep_in_bounds(0, outer.weights.tensor(0, unit.part_count));
  unit.change_stepped([&](std::int64_t begin, const at::Tensor& values) {
    const at::Tensor merged = outer.weights.tensor(begin, values.numel());
    if (blend == 0)
      values.copy_(merged);
    else
      values.mul_(blend).add_(merged.mul(1 - blend));
  });
  unit.follow_stepped();
  if (plan::merge_bytes(plan_, id) > 0) outer.mean = Flat();
}

void Units::swap_outer() {
  at::NoGradGuard no_grad;
  for (const auto& unit : units_) {
    if (unit == nullptr || !unit->outer.weights) continue;
    unit->change_stepped([&](std::int64_t begin, const at::Tensor& values) {
      const at::Tensor outer = unit->outer.weights.tensor(begin, values.numel());
      const at::Tensor own = values.clone();
      values.copy_(outer);
      outer.copy_(own);
    });
    unit->follow_stepped();
  }
  gather_stale();
}

void Units::adopt_outer() {
  at::NoGradGuard no_grad;
  for (const auto& unit : units_)
    if (unit != nullptr && unit->outer.weights) {
      unit->set_stepped(0, unit->outer.weights.tensor(0, unit->part_count));
      if (unit->outer.residual) unit->outer.residual.zero();
    }
}

}  // namespace trireme::exec
