// Units that are updated by matrix.
#include "trireme/plan/compile/matrix_updates.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/exec/units/matrix_update.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/unit_share.h"

namespace trireme::exec {

namespace {

// Takes the gradient.
void direct(UnitState& unit, const Flat& direction, const UpdateArgs& args) {
  for (const MatrixUpdate::Range& range : unit.matrices->ranges) {
    const std::int64_t count = range.end - range.begin;
    std::vector<at::Tensor> states;
    for (const Flat& state : unit.states) states.push_back(state.tensor(range.begin, count));
    unit.optimizer->by_matrix().direct(unit.grad.tensor(range.begin, count), states,
                                       direction.tensor(range.at, count), args);
  }
  unit.grad = Flat();
}

}  // namespace

MatrixUpdate::MatrixUpdate(const plan::PlanSet& plan, plan::UnitId id, int shard) {
  const plan::MatrixUpdates updates(plan, id);
  const plan::Unit& unit = plan.program.units[id];
  const std::int64_t size = plan::share_of(plan, id).part, first = shard * size;
  exchanged = updates.shards() > 1;
  for (int owner = 0; owner < updates.shards(); ++owner) {
    given.push_back(updates.moved(shard, owner));
    owned.push_back(updates.moved(owner, shard));
    for (const plan::Matrix& matrix : unit.matrices) {
      if (!updates.is_own(matrix, owner)) continue;
      const std::int64_t count = matrix.within(first, first + size);
      if (count == 0) continue;
      const std::int64_t begin = std::max(matrix.offset - first, std::int64_t{0});
      ranges.push_back({.begin = begin, .end = begin + count, .at = part});
      part += count;
    }
  }
  std::int64_t at = 0;
  for (plan::Matrix matrix : unit.matrices) {
    if (!updates.is_own(matrix, shard)) continue;
    matrix.offset = at;
    at += matrix.numel();
    own.push_back(matrix);
  }
}

void Units::exchange_update_begin(plan::UnitId id, bool back, const UpdateArgs& args) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  MatrixUpdate& update = *unit.matrices;
  update.moving = Flat(*memory_, update.part, plan_.recipe.master);
  update.returning = back;
  comm::Group& group = groups_.over(unit.sharing.shards);
  if (back) {
    update.exchange =
        group.all_to_all(update.whole.buffer(), update.owned, update.moving.buffer(), update.given);
    return;
  }
  direct(unit, update.moving, args);
  update.whole =
      Flat(*memory_, std::reduce(update.owned.begin(), update.owned.end()), plan_.recipe.master);
  update.exchange =
      group.all_to_all(update.moving.buffer(), update.given, update.whole.buffer(), update.owned);
}

void Units::finish_exchange_update(plan::UnitId id) {
  MatrixUpdate& update = *at(id).matrices;
  if (!update.moving) return;  // the step is skipped
  update.exchange.wait();
  (update.returning ? update.whole : update.moving) = Flat();
}

void Units::update_matrices(plan::UnitId id, const UpdateArgs& args) {
  at::NoGradGuard no_grad;
  UnitState& unit = at(id);
  MatrixUpdate& update = *unit.matrices;
  if (!update.exchanged) {
    update.whole = Flat(*memory_, update.part, plan_.recipe.master);
    direct(unit, update.whole, args);
  }
  for (const plan::Matrix& matrix : update.own)
    unit.optimizer->by_matrix().update_matrix(
        update.whole.tensor(matrix.offset, matrix.numel()).view({matrix.rows, matrix.cols}));
}

void step_by_matrix(UnitState& unit, const UpdateArgs& args) {
  const MatrixUpdate& update = *unit.matrices;
  unit.change_stepped([&](std::int64_t first, const at::Tensor& params) {
    for (const MatrixUpdate::Range& range : update.ranges) {
      const std::int64_t begin = std::max(range.begin, first);
      const std::int64_t end = std::min(range.end, first + params.numel());
      if (begin >= end) continue;
      unit.optimizer->update(params.narrow(0, begin - first, end - begin),
                             update.updates().tensor(range.at + (begin - range.begin), end - begin),
                             {}, unit.segments_of(begin, end), args);
    }
    unit.keep_in_bounds(first, params);
  });
}

}  // namespace trireme::exec
