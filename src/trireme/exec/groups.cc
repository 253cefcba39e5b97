#include "trireme/exec/groups.h"

#include <numeric>
#include <set>

namespace trireme::exec {

Groups::Groups(comm::World& world, const plan::PlanSet& plan) {
  // Over every list, not just this rank's: all ranks must make the same groups in the same order.
  std::set<mesh::AxisSet> wanted;
  for (const plan::List& list : plan.lists)
    for (const plan::Instr& line : list)
      if (!line.axes.empty()) wanted.insert(line.axes);
  for (mesh::AxisSet axes : wanted)
    groups_[axes] = world.make_group(mesh::print(axes), plan.mesh.group(world.rank(), axes));

  std::vector<int> everyone(static_cast<std::size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  world_ = world.make_host_group("world", everyone);
}

comm::Group& Groups::over(mesh::AxisSet axes) const {
  const auto found = groups_.find(axes);
  TRIREME_CHECK(found != groups_.end(), "no group over {}", mesh::print(axes));
  return *found->second;
}

}  // namespace trireme::exec
