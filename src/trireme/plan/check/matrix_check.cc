#include "trireme/plan/check/matrix_check.h"

#include "trireme/plan/compile/matrix_updates.h"

namespace trireme::plan {

void MatrixCheck::line(int index) {
  const Instr& line = view_.list[index];
  switch (line.verb) {
    case Verb::kGradNorm: grad_norm_ = index; break;
    case Verb::kExchangeUpdate: exchange(index, line); break;
    case Verb::kUpdateMatrices: compute(index, line.unit); break;
    case Verb::kStep: step(index, line.unit); break;
    default: break;
  }
}

bool MatrixCheck::exchanged(UnitId unit) const {
  return exchanges_updates(view_.sharing(unit), view_.program().units[unit]);
}

void MatrixCheck::once(int index, int& line) const {
  if (line >= 0) view_.refuse(index, "happens a second time");
  line = index;
}

void MatrixCheck::require_direction(int index, UnitId unit) const {
  if (!view_.program().units[unit].by_matrix)
    view_.refuse(index, "the unit is updated element by element");
  if (grad_norm_ < 0) view_.refuse(index, "comes before grad_norm");
  view_.require_before(grad_norm_, index, "which decides the clip factor");
}

void MatrixCheck::exchange(int index, const Instr& line) {
  Update& update = units_[line.unit];
  require_direction(index, line.unit);
  if (const mesh::AxisSet shards = view_.sharing(line.unit).shards; line.axes != shards)
    view_.refuse(index, "exchanges over {}, the unit is sharded over {}", mesh::print(line.axes),
                 mesh::print(shards));
  if (!line.scatter) return once(index, update.sent);
  if (update.computed < 0) view_.refuse(index, "the unit's matrices have no updates yet");
  view_.require_before(update.computed, index, "which computes the updates");
  once(index, update.returned);
}

void MatrixCheck::compute(int index, UnitId unit) {
  Update& update = units_[unit];
  require_direction(index, unit);
  if (exchanged(unit)) {
    if (update.sent < 0) view_.refuse(index, "no exchange_update has brought the matrices");
    view_.require_before(update.sent, index, "which brings the matrices");
  }
  once(index, update.computed);
}

void MatrixCheck::step(int index, UnitId unit) const {
  if (!view_.program().units[unit].by_matrix) return;
  const int made = exchanged(unit) ? units_[unit].returned : units_[unit].computed;
  if (made < 0) view_.refuse(index, "the updates of its matrices are lost: none has come here");
  view_.require_before(made, index, "which brings the updates of its matrices");
}

void check_owners(const PlanSet& plan) {
  Program right = plan.program;
  for (Unit& unit : right.units)
    for (Matrix& matrix : unit.matrices) matrix.owner = -1;
  assign_owners(right, plan.mesh, plan.recipe);
  for (std::size_t id = 0; id < right.units.size(); ++id)
    for (std::size_t i = 0; i < right.units[id].matrices.size(); ++i) {
      const Matrix& matrix = plan.program.units[id].matrices[i];
      if (const int owner = right.units[id].matrices[i].owner; matrix.owner != owner)
        fail(ErrorKind::kInternal,
             "plan {}: unit {}: the matrix at element {} belongs to shard {}, needs {}",
             plan.program.name, right.units[id].name, matrix.offset, matrix.owner, owner);
    }
}

}  // namespace trireme::plan
