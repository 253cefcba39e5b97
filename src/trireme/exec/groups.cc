#include "trireme/exec/groups.h"

#include <numeric>
#include <set>

#include "trireme/plan/compile/placement.h"

namespace trireme::exec {

using mesh::Axis;

namespace {

bool adds_integers(const plan::Recipe& recipe) {
  return recipe.coded && codec::is_integer(recipe.coded->codec);
}

}  // namespace

Groups::Groups(comm::World& world, const plan::PlanSet& plan) {
  // Over every list, not just this rank's: all ranks must make the same groups in the same order.
  std::set<mesh::AxisSet> wanted;
  for (const plan::List& list : plan.lists)
    for (const plan::Instr& line : list)
      if (!line.axes.empty() && line.verb != plan::Verb::kSyncTied) wanted.insert(line.axes);
  // Lists of other steps merge islands.
  if (plan.recipe.outer) wanted.insert(mesh::AxisSet(Axis::kIsland));
  for (mesh::AxisSet axes : wanted)
    groups_[axes] = world.make_group(mesh::print(axes), plan.mesh.group(world.rank(), axes),
                                     (axes - mesh::kDp - Axis::kCp).empty()
                                         ? algorithm::Choice{.kind = plan.recipe.algorithm,
                                                             .canonical = plan.recipe.canonical,
                                                             .served = true,
                                                             .integers = adds_integers(plan.recipe)}
                                         : algorithm::Choice{});

  make_blocks(world, plan);
  make_channels(world, plan);
  make_tied(world, plan);
  std::vector<int> everyone(static_cast<std::size_t>(world.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  world_ = world.make_host_group("world", everyone);
}

void Groups::make_blocks(comm::World& world, const plan::PlanSet& plan) {
  std::set<Block> wanted;
  for (const plan::List& list : plan.lists)
    for (const plan::Instr& line : list)
      if (line.within > 0) wanted.insert({line.axes, line.within});
  for (const Block& block : wanted) {
    const auto& [axes, within] = block;
    const std::vector<int> all = plan.mesh.group(world.rank(), axes);
    const int place = plan.mesh.index_in_group(world.rank(), axes);
    std::vector<int> neighbours, others;
    for (int i = 0; i < static_cast<int>(all.size()); ++i) {
      if (i / within == place / within) neighbours.push_back(all[i]);
      if (i % within == place % within) others.push_back(all[i]);
    }
    const std::string name = fmt::format("{} {} of {}", within, mesh::print(axes), all.size());
    inside_[block] = world.make_group("within " + name, neighbours);
    across_[block] = world.make_group("across " + name, others);
  }
}

void Groups::make_channels(comm::World& world, const plan::PlanSet& plan) {
  std::map<std::pair<int, int>, bool> wanted;  // stages; whether anything is announced
  for (int rank : plan.mesh.group(world.rank(), Axis::kPp))
    for (const plan::Instr& line : plan.list(rank))
      if (line.verb == plan::Verb::kSend)
        wanted[{plan.mesh.coordinate(rank, Axis::kPp), line.peer}] |=
            plan.program.values[line.value].varies;
  const int stage = plan.mesh.coordinate(world.rank(), Axis::kPp);
  for (const auto& [stages, announces] : wanted) {
    const auto [from, to] = stages;
    if (stage != from && stage != to) continue;
    const std::vector<int> ends = {plan.mesh.peer(world.rank(), Axis::kPp, from),
                                   plan.mesh.peer(world.rank(), Axis::kPp, to)};
    const std::string name = fmt::format("stage {} to {}", from, to);
    channels_[stages] = world.make_group(name, ends);
    if (announces) announcements_[stages] = world.make_host_group("announcements, " + name, ends);
  }
}

void Groups::make_tied(comm::World& world, const plan::PlanSet& plan) {
  for (const plan::Instr& line : plan.list(world.rank())) {
    if (line.verb != plan::Verb::kSyncTied) continue;
    std::vector<int> ranks;
    for (int stage : plan::stages_of_unit(plan.program, line.unit))
      ranks.push_back(plan.mesh.peer(world.rank(), Axis::kPp, stage));
    tied_[line.unit] = world.make_group("tied " + plan.program.units[line.unit].name, ranks);
  }
}

comm::Group& Groups::tied(plan::UnitId unit) const {
  const auto found = tied_.find(unit);
  TRIREME_CHECK(found != tied_.end(), "no group for tied unit {}", unit);
  return *found->second;
}

comm::Group& Groups::channel(int from, int to) const {
  const auto found = channels_.find({from, to});
  TRIREME_CHECK(found != channels_.end(), "no channel from stage {} to {}", from, to);
  return *found->second;
}

comm::Group& Groups::announcements(int from, int to) const {
  const auto found = announcements_.find({from, to});
  TRIREME_CHECK(found != announcements_.end(), "nothing is announced from stage {} to {}", from,
                to);
  return *found->second;
}

comm::Group& Groups::found(const std::map<Block, std::unique_ptr<comm::Group>>& groups,
                           const Block& block) {
  const auto group = groups.find(block);
  TRIREME_CHECK(group != groups.end(), "no blocks of {} over {}", block.second,
                mesh::print(block.first));
  return *group->second;
}

comm::Group& Groups::inside(mesh::AxisSet axes, int within) const {
  return found(inside_, {axes, within});
}

comm::Group& Groups::across(mesh::AxisSet axes, int within) const {
  return found(across_, {axes, within});
}

comm::Group& Groups::over(mesh::AxisSet axes) const {
  const auto found = groups_.find(axes);
  TRIREME_CHECK(found != groups_.end(), "no group over {}", mesh::print(axes));
  return *found->second;
}

}  // namespace trireme::exec
