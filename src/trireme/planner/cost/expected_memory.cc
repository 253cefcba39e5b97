#include "trireme/planner/cost/expected_memory.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/config/saving.h"
#include "trireme/config/synthetic.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/saved.h"
#include "trireme/planner/cost/expected_share.h"

namespace trireme::planner {
namespace {

using Share = std::function<double(std::string_view)>;

void scale(std::int64_t& bytes, double share) {
  bytes = std::llround(share * static_cast<double>(bytes));
}

// A value has as many expected rows as the node that reads it first. A loss, which may read a part of them, has those
// of the node that writes it.
std::vector<double> shares_of_values(const plan::Program& program, const Share& share) {
  std::vector<double> shares(program.values.size(), 1);
  std::vector<bool> read(program.values.size());
  for (const plan::Node& node : program.nodes) {
    for (const plan::ValueId value : node.writes) shares[value] = share(node.name);
    if (node.loss) continue;
    for (const plan::ValueId value : node.reads) {
      const auto at = static_cast<std::size_t>(value);
      if (!read[at]) shares[at] = share(node.name);
      read[at] = true;
    }
  }
  return shares;
}

plan::PlanSet with_rows(plan::PlanSet plan, const Share& share) {
  plan::Program& program = plan.program;
  const std::vector<double> of_values = shares_of_values(program, share);
  for (std::size_t i = 0; i < program.values.size(); ++i)
    if (program.values[i].varies) scale(program.values[i].bytes, of_values[i]);
  for (plan::Node& node : program.nodes) {
    const double rows = share(node.name);
    if (rows == 1) continue;
    scale(node.saved_bytes, rows);
    for (std::int64_t* const work : {&node.work.forward, &node.work.passing, &node.work.backward,
                                     &node.work.input, &node.work.weight})
      scale(*work, rows);
    for (plan::Part& part : node.parts) scale(part.saved_bytes, rows), scale(part.work_bytes, rows);
    if (node.split) scale(node.split->kept_bytes, rows);
  }
  return plan;
}

}  // namespace

plan::PlanSet with_expected_rows(plan::PlanSet plan, const config::Job& job) {
  const ExpectedShare share(job);
  return with_rows(std::move(plan), [&](std::string_view node) { return share.of(node); });
}

plan::PlanSet with_fullest_rows(plan::PlanSet plan, const config::Job& job) {
  const ExpectedShare share(job);
  if (!share.varies()) return plan;
  return with_rows(std::move(plan), [&](std::string_view node) { return share.fullest(node); });
}

std::int64_t samples_ahead(const plan::PlanSet& plan, const config::Job& job, int rank) {
  const int stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
  if (config::files_of(job.data.source).empty() ||
      plan::inputs_of_stage(plan.program, stage).empty())
    return 0;
  std::vector<bool> written(plan.program.values.size());
  for (const plan::Node& node : plan.program.nodes)
    for (const plan::ValueId value : node.writes) written[value] = true;
  std::int64_t micro_batch = 0;  // all inputs of the program, whichever stage reads them
  for (std::size_t i = 0; i < written.size(); ++i)
    if (!written[i]) micro_batch += plan.program.values[i].bytes;
  constexpr std::int64_t kReading = 2;
  return plan.recipe.micro_batches * micro_batch + kReading * micro_batch / job.run.micro_batch;
}

std::int64_t snapshot_bytes(const plan::PlanSet& plan, const config::Job& job, int rank) {
  const auto comes = [&](std::int64_t every) { return every > 0 && every <= job.run.steps; };
  const int copies = (config::saves_async(job) && comes(job.checkpoint.every) ? 1 : 0) +
                     (comes(job.checkpoint.memory_every) ? 1 : 0);
  return copies == 0 ? 0 : copies * plan::saved_bytes(plan, rank, job.checkpoint.trainable_only);
}

}  // namespace trireme::planner
