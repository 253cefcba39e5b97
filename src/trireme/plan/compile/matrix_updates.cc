#include "trireme/plan/compile/matrix_updates.h"

#include <algorithm>
#include <vector>

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/unit_share.h"

namespace trireme::plan {

bool exchanges_updates(const UnitSharing& sharing, const Unit& unit) {
  return unit.by_matrix && !sharing.shards.empty();
}

double update_flops(const Matrix& matrix, int rounds) {
  const auto shorter = static_cast<double>(std::min(matrix.rows, matrix.cols));
  const auto longer = static_cast<double>(std::max(matrix.rows, matrix.cols));
  return rounds * (4 * shorter * shorter * longer + 2 * shorter * shorter * shorter);
}

void assign_owners(Program& program, const mesh::Mesh& mesh, const Recipe& recipe) {
  for (int stage = 0; stage < mesh.degree(mesh::Axis::kPp); ++stage) {
    struct Work {
      Matrix* matrix;
      int shards;
      double flops;
    };
    std::vector<Work> all;
    for (const UnitId id : units_of_stage(program, stage)) {
      Unit& unit = program.units[id];
      if (!unit.by_matrix) continue;
      const int shards = mesh.degree(sharing_of(mesh, recipe, unit).shards);
      for (Matrix& matrix : unit.matrices)
        if (stages_of_unit(program, id).front() == stage)
          all.push_back({.matrix = &matrix,
                         .shards = shards,
                         .flops = update_flops(matrix, recipe.matrix_rounds)});
    }
    std::ranges::stable_sort(all, [](const Work& a, const Work& b) { return a.flops > b.flops; });
    std::vector<double> busy;
    for (const Work& one : all) {
      busy.resize(std::max(busy.size(), static_cast<std::size_t>(one.shards)));
      const auto least = std::min_element(busy.begin(), busy.begin() + one.shards);
      one.matrix->owner = static_cast<int>(least - busy.begin());
      *least += one.flops;
    }
  }
}

MatrixUpdates::MatrixUpdates(const PlanSet& plan, UnitId id)
    : unit_(plan.program.units[id]), recipe_(plan.recipe), part_(share_of(plan, id).part) {
  shards_ = plan.mesh.degree(sharing_of(plan.mesh, plan.recipe, unit_).shards);
}

std::int64_t MatrixUpdates::moved(int from, int to) const {
  std::int64_t sum = 0;
  for (const Matrix& matrix : unit_.matrices)
    if (is_own(matrix, to)) sum += matrix.within(from * part_, (from + 1) * part_);
  return sum;
}

std::int64_t MatrixUpdates::owned(int shard) const {
  std::int64_t sum = 0;
  for (const Matrix& matrix : unit_.matrices)
    if (is_own(matrix, shard)) sum += matrix.numel();
  return sum;
}

std::int64_t MatrixUpdates::bytes_of_part(int shard) const {
  std::int64_t sum = 0;
  for (const Matrix& matrix : unit_.matrices)
    sum += matrix.within(shard * part_, (shard + 1) * part_);
  return bytes(sum);
}

double MatrixUpdates::flops(int shard) const {
  double sum = 0;
  for (const Matrix& matrix : unit_.matrices)
    if (is_own(matrix, shard)) sum += update_flops(matrix, recipe_.matrix_rounds);
  return sum;
}

std::int64_t MatrixUpdates::work_bytes(int shard) const {
  std::int64_t most = 0;
  for (const Matrix& matrix : unit_.matrices) {
    const std::int64_t shorter = std::min(matrix.rows, matrix.cols);
    if (is_own(matrix, shard)) most = std::max(most, matrix.numel() + 2 * shorter * shorter);
  }
  return bytes(most);
}

std::int64_t MatrixUpdates::bytes(std::int64_t elements) const {
  return elements * static_cast<std::int64_t>(size_of(recipe_.master));
}

}  // namespace trireme::plan
