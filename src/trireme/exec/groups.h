// The communication groups that a plan names, made once per rank.
#pragma once

#include <map>
#include <memory>

#include "trireme/comm/world.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

class Groups {
 public:
  // Every rank of the world constructs its Groups from an equal plan, at the same point.
  Groups(comm::World& world, const plan::PlanSet& plan);

  comm::Group& over(mesh::AxisSet axes) const;
  // All ranks, for numbers in host memory.
  comm::Group& world() const { return *world_; }

 private:
  std::map<mesh::AxisSet, std::unique_ptr<comm::Group>> groups_;
  std::unique_ptr<comm::Group> world_;
};

}  // namespace trireme::exec
