// The communication groups that a plan names, made once per rank.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "trireme/comm/world.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

class Groups {
 public:
  // Every rank of the world constructs its Groups from an equal plan, at the same point.
  Groups(comm::World& world, const plan::PlanSet& plan);

  comm::Group& over(mesh::AxisSet axes) const;
  // Of lines with `within`: this rank's block of neighbours, and the ranks with its place in all blocks of the group.
  comm::Group& inside(mesh::AxisSet axes, int within) const;
  comm::Group& across(mesh::AxisSet axes, int within) const;
  // The stages that use a tied unit.
  comm::Group& tied(plan::UnitId unit) const;
  // This rank and its peer on another stage, for transfers in one direction; the receiver is rank 1. Announcements
  // ahead of a transfer go through host memory.
  comm::Group& channel(int from, int to) const;
  comm::Group& announcements(int from, int to) const;
  // All ranks, for numbers in host memory.
  comm::Group& world() const { return *world_; }

 private:
  void make_channels(comm::World& world, const plan::PlanSet& plan);
  void make_tied(comm::World& world, const plan::PlanSet& plan);

  using Block = std::pair<mesh::AxisSet, int>;  // axes and ranks of a block
  void make_blocks(comm::World& world, const plan::PlanSet& plan);
  static comm::Group& found(const std::map<Block, std::unique_ptr<comm::Group>>& groups,
                            const Block& block);

  std::map<mesh::AxisSet, std::unique_ptr<comm::Group>> groups_;
  std::map<Block, std::unique_ptr<comm::Group>> inside_;
  std::map<Block, std::unique_ptr<comm::Group>> across_;
  std::map<plan::UnitId, std::unique_ptr<comm::Group>> tied_;
  std::map<std::pair<int, int>, std::unique_ptr<comm::Group>> channels_;
  std::map<std::pair<int, int>, std::unique_ptr<comm::Group>> announcements_;
  std::unique_ptr<comm::Group> world_;
};

}  // namespace trireme::exec
