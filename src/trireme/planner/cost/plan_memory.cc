#include "trireme/planner/cost/plan_memory.h"

#include <set>

#include "trireme/plan/memory.h"

namespace trireme::planner {

DeviceMemory plan_memory(const plan::PlanSet& plan, int rank, bool expandable,
                         const MemoryConstants& constants) {
  const plan::MemoryAccount account = plan::memory_account(plan, rank);
  const plan::MemoryPoint& peak =
      account.peak_line < 0 ? account.persistent : account.at_line[account.peak_line];
  DeviceMemory memory;
  const auto add = [&](std::string name, double bytes, Pool pool) {
    if (bytes > 0) memory.terms.push_back({std::move(name), bytes, pool});
  };
  const auto bytes = [&](plan::MemoryKind kind) {
    return static_cast<double>(peak[static_cast<std::size_t>(kind)]);
  };
  for (int i = 0; i < plan::kMemoryKinds; ++i) {
    const auto kind = static_cast<plan::MemoryKind>(i);
    const bool host = kind == plan::MemoryKind::kHost;
    add(std::string(plan::name(kind)), bytes(kind), host ? Pool::kHost : Pool::kTensors);
  }
  if (!expandable)
    add("holes", constants.holes * bytes(plan::MemoryKind::kActivations), Pool::kHoles);
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
