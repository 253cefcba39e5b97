#include "trireme/planner/cost/plan_memory.h"

#include <set>

#include "trireme/plan/memory.h"

namespace trireme::planner {
namespace {

using plan::MemoryKind;

Pool pool_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kActivations: return Pool::kKept;
    case MemoryKind::kHost: return Pool::kHost;
    case MemoryKind::kParams:
    case MemoryKind::kOptimizer:
    case MemoryKind::kGradients: return Pool::kAlways;
    default: return Pool::kForward;
  }
}

}  // namespace

DeviceMemory plan_memory(const plan::PlanSet& plan, int rank, bool expandable,
                         const MemoryConstants& constants) {
  const plan::MemoryAccount account = plan::memory_account(plan, rank);
  const plan::MemoryPoint& peak =
      account.peak_line < 0 ? account.persistent
                            : account.at_line[static_cast<std::size_t>(account.peak_line)];
  DeviceMemory memory{
      .stage = plan.mesh.coordinate(rank, mesh::Axis::kPp), .terms = {}, .expandable = expandable};
  const auto add = [&](std::string name, double bytes, Pool pool) {
    if (bytes > 0) memory.terms.push_back({std::move(name), bytes, pool});
  };
  double kept = 0;
  for (int kind = 0; kind < plan::kMemoryKinds; ++kind) {
    const Pool pool = pool_of(static_cast<MemoryKind>(kind));
    const auto bytes = static_cast<double>(peak[static_cast<std::size_t>(kind)]);
    add(std::string(plan::name(static_cast<MemoryKind>(kind))), bytes, pool);
    if (pool == Pool::kKept) kept += bytes;
  }
  if (!expandable) add("holes", constants.holes * kept, Pool::kHoles);
  add("context", constants.context, Pool::kOutside);
  add("communicators", plan_communicators(plan, rank) * constants.communicator, Pool::kOutside);
  return memory;
}

int plan_communicators(const plan::PlanSet& plan, int rank) {
  const int stage = plan.mesh.coordinate(rank, mesh::Axis::kPp);
  std::set<mesh::AxisSet> groups;
  std::set<int> peers;
  for (const plan::Instr& line : plan.list(rank)) {
    groups.insert(plan.mesh.real(line.axes));
    if (plan::is_transfer(line)) peers.insert(line.peer);
  }
  for (const plan::Node& node : plan.program.nodes)
    if (node.stage == stage)
      for (const plan::NodeExchange& exchange : node.exchanges)
        groups.insert(plan.mesh.real(exchange.axes));
  groups.erase(mesh::AxisSet{});
  return static_cast<int>(groups.size() + peers.size());
}

}  // namespace trireme::planner
