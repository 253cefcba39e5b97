#include "trireme/exec/grad_norm.h"

#include <span>

#include "trireme/base/clock.h"
#include "trireme/plan/microbatch.h"

namespace trireme::exec {
namespace {

using mesh::Axis;

// Adds neighbours, then sums of neighbours: the tree that gradients are added along.
double tree_sum(std::vector<double> terms) {
  while (terms.size() > 1) {
    std::vector<double> sums;
    for (std::size_t i = 0; i < terms.size(); i += 2)
      sums.push_back(i + 1 < terms.size() ? terms[i] + terms[i + 1] : terms[i]);
    terms = std::move(sums);
  }
  return terms.empty() ? 0 : terms[0];
}

}  // namespace

GlobalSums exchange_sums(const plan::PlanSet& plan, int rank, Units& units, const Groups& groups,
                         const std::vector<double>& losses, bool flag) {
  // Each rank sends its flag, its losses, then the chunk sums of every unit it holds only a part of. All
  // ranks hold parts of one size, so that contributions are equally long.
  const int tp = plan.mesh.degree(Axis::kTp);
  const auto in_parts = [&](plan::UnitId unit) { return tp > 1 || units.sharded(unit); };
  std::vector<double> mine = {flag ? 1.0 : 0.0};
  mine.insert(mine.end(), losses.begin(), losses.end());
  std::vector<std::vector<double>> whole(plan.program.units.size());
  std::vector<std::size_t> chunks(plan.program.units.size());
  for (std::size_t u = 0; u < plan.program.units.size(); ++u) {
    if (!plan.program.units[u].trainable) continue;
    std::vector<double> sums = units.chunk_square_sums(static_cast<plan::UnitId>(u));
    chunks[u] = sums.size();
    if (in_parts(static_cast<plan::UnitId>(u)))
      mine.insert(mine.end(), sums.begin(), sums.end());
    else
      whole[u] = std::move(sums);
  }
  const int world = plan.mesh.world();
  const auto count = static_cast<std::int64_t>(mine.size());
  std::vector<double> all(mine.size() * static_cast<std::size_t>(world));
  const Stopwatch waiting;
  groups.world()
      .all_gather(comm::Buffer{mine.data(), count, DType::kF64},
                  comm::Buffer{all.data(), count * world, DType::kF64})
      .wait();
  const double wait_s = waiting.seconds();
  const auto of_rank = [&](int r) {
    return std::span<const double>(all).subspan(static_cast<std::size_t>(r) * mine.size(),
                                                mine.size());
  };

  GlobalSums result;
  result.wait_s = wait_s;
  std::vector<double> ordered(
      static_cast<std::size_t>(plan::global_micro_batches(plan.mesh, plan.recipe)));
  // cp ranks have losses of their own tokens, tp ranks the same one: that of the first counts.
  for (int r : plan.mesh.group(plan.mesh.peer(rank, Axis::kTp, 0), mesh::kReplicas))
    for (int mb = 0; mb < plan.recipe.micro_batches; ++mb)
      ordered[static_cast<std::size_t>(plan::micro_batch_id(plan.mesh, plan.recipe, r, mb))] +=
          of_rank(r)[static_cast<std::size_t>(1 + mb)];
  for (int r = 0; r < world; ++r) result.flag = result.flag || of_rank(r)[0] != 0;
  result.loss = tree_sum(std::move(ordered));

  std::size_t position = 1 + losses.size();
  for (std::size_t u = 0; u < plan.program.units.size(); ++u) {
    const auto id = static_cast<plan::UnitId>(u);
    if (!plan.program.units[u].trainable) continue;
    if (!in_parts(id)) {
      for (double sum : whole[u]) result.square_sum += sum;
      continue;
    }
    const mesh::AxisSet shards = units.sharded(id) ? mesh::kShards : mesh::AxisSet();
    for (int t = 0; t < tp; ++t)
      for (int r : plan.mesh.group(plan.mesh.peer(rank, Axis::kTp, t), shards))
        for (double sum : of_rank(r).subspan(position, chunks[u])) result.square_sum += sum;
    position += chunks[u];
  }
  return result;
}

double clip_scale(double norm, double clip) {
  return clip > 0 && norm > clip ? clip / (norm + 1e-6) : 1;
}

}  // namespace trireme::exec
