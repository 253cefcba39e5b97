#include "trireme/plan/low_rank.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_sharing.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

constexpr auto kWidth = static_cast<std::int64_t>(sizeof(float));

// By place in the unit, and what is between them.
void find_matrices(const Unit& unit, int rank, LowRank& low) {
  std::int64_t end = 0, dense = 0;
  const auto leave = [&](std::int64_t until) {
    if (end < until) low.dense.push_back({.begin = end, .end = until, .at = dense});
    dense += until - end;
  };
  for (const Matrix& matrix : unit.matrices) {
    if (!is_factored(matrix, rank)) continue;
    leave(matrix.offset);
    end = matrix.end();
    const codec::ThinShape shape{.rows = matrix.rows, .cols = matrix.cols, .rank = rank};
    low.matrices.push_back({.matrix = matrix, .shape = shape, .start = low.starts});
    low.starts += shape.right();
  }
  leave(unit.numel);
}

void distribute(LowRank& low) {
  std::vector<FactoredMatrix*> largest;
  for (FactoredMatrix& one : low.matrices) largest.push_back(&one);
  std::ranges::stable_sort(largest, [](const FactoredMatrix* a, const FactoredMatrix* b) {
    return a->matrix.numel() > b->matrix.numel();
  });
  for (FactoredMatrix* one : largest) {
    const auto least = std::ranges::min_element(low.owners, {}, &FactorOwner::matrices);
    one->owner = static_cast<int>(least - low.owners.begin());
    least->matrices += one->matrix.numel();
  }
  std::ranges::stable_sort(low.matrices, {}, &FactoredMatrix::owner);
}

// Places of factors, and of what owners hold. One that has whole sums holds them as they are.
void place_factors(const Unit& unit, std::int64_t full, LowRank& low) {
  for (FactoredMatrix& one : low.matrices) {
    FactorOwner& owner = low.owners[one.owner];
    one.left = std::exchange(owner.left, owner.left + one.shape.left());
    one.right = std::exchange(owner.right, owner.right + one.shape.right());
    one.held = low.distributed() ? owner.held : one.matrix.offset;
    owner.held += one.matrix.numel();
    owner.ranges.push_back({.begin = one.matrix.offset, .end = one.matrix.end(), .at = one.held});
  }
  for (FactorOwner& owner : low.owners)
    owner.first = std::exchange(low.factors, low.factors + owner.left + owner.right);
  for (FactoredMatrix& one : low.matrices) {
    const FactorOwner& owner = low.owners[one.owner];
    one.left += owner.first;
    one.right += owner.first + owner.left;
  }
  if (!low.distributed()) {
    low.owners[0].held = full;
    low.owners[0].ranges = {{.begin = 0, .end = unit.numel}};
    return;
  }
  // Residuals cover the unit in checkpoints.
  FactorOwner& last = *std::ranges::min_element(low.owners, {}, &FactorOwner::held);
  for (const ResidualRange& range : low.dense) {
    last.ranges.push_back({.begin = range.begin, .end = range.end, .at = last.held});
    last.held += range.end - range.begin;
  }
}

}  // namespace

std::int64_t LowRank::dense_in(std::int64_t begin, std::int64_t end) const {
  std::int64_t sum = 0;
  for (const ResidualRange& range : dense)
    sum += std::max<std::int64_t>(std::min(end, range.end) - std::max(begin, range.begin), 0);
  return sum;
}

std::int64_t LowRank::dense_of_part(int place) const {
  return dense_in(place * part, (place + 1) * part);
}

std::int64_t LowRank::dense_sent(int place) const {
  if (distributed()) return dense_of_part(place);
  return dense.empty() ? 0 : dense_in(0, dense.back().end);
}

std::int64_t LowRank::moved(int from, int to) const {
  std::int64_t sum = 0;
  for (const FactoredMatrix& one : matrices)
    if (one.owner == to) sum += one.matrix.within(from * part, (from + 1) * part);
  return sum;
}

std::int64_t LowRank::summed_bytes(int place) const {
  return kWidth * (dense_sent(place) + owner(place).left + owner(place).right);
}

std::int64_t LowRank::buffers(int place) const {
  const FactorOwner& mine = owner(place);
  return kWidth * (factors + reduction.own() * std::max(mine.left, mine.right) + dense_sent(place) +
                   mine.left + (reduction.scatters ? dense_of_part(place) : 0) +
                   (distributed() ? mine.matrices : 0));
}

std::int64_t LowRank::moving_bytes(int place) const {
  if (!distributed()) return 0;
  std::int64_t sent = 0;
  for (int to = 0; to < std::ssize(owners); ++to) sent += moved(place, to);
  return kWidth * (sent + owner(place).matrices);
}

LowRank low_rank(const PlanSet& plan, UnitId id) {
  const Unit& unit = plan.program.units[id];
  const UnitShare share = share_of(plan, id);
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, unit);
  LowRank low{.reduction = coded_reduction(plan, id), .part = share.part};
  const bool distributed = share.sharded && !low.reduction.scatters;
  low.owners.resize(distributed ? static_cast<std::size_t>(plan.mesh.degree(sharing.shards)) : 1);
  find_matrices(unit, low.reduction.sums.codec.rank, low);
  low.start_block = static_cast<std::int64_t>(std::bit_floor(
      static_cast<std::uint64_t>(std::min(state_block(unit.numel), unit.numel / low.starts))));
  low.starts = (unit.numel + low.start_block - 1) / low.start_block;
  distribute(low);
  place_factors(unit, share.full, low);
  return low;
}

int low_rank_place(const PlanSet& plan, int rank, UnitId id) {
  const UnitSharing sharing = sharing_of(plan.mesh, plan.recipe, plan.program.units[id]);
  const bool distributed = !sharing.shards.empty() && !sharing.rest.empty();
  return plan.mesh.index_in_group(rank, distributed ? sharing.shards : coded_axes(sharing));
}

}  // namespace trireme::plan
