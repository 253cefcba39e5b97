// Stage: what every pass may look at. A pass is a pure function from a stage's list to its list.
#pragma once

#include "trireme/plan/compile/placement.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

struct Stage {
  const Program& program;
  const mesh::Mesh& mesh;
  const Recipe& recipe;
  const GradientFlow& flow;
  int index = 0;

  int degree(mesh::Axis axis) const { return mesh.degree(axis); }
  const Node& node(NodeId id) const { return program.nodes[id]; }
  bool runs(NodeId id) const { return node(id).stage == index; }
  bool has_backward(NodeId id) const { return flow.node_has_backward[id]; }
  UnitSharing sharing(UnitId id) const { return sharing_of(mesh, recipe, program.units[id]); }
  int node_count() const { return static_cast<int>(program.nodes.size()); }
};

// A gather of the unit's parameters among all of its shards.
inline Instr gather_of(const Stage& stage, UnitId unit) {
  return {.verb = Verb::kUnshard,
          .lane = Lane::kDp,
          .unit = unit,
          .axes = stage.sharing(unit).shards,
          .coded = gathers_codes(stage.recipe, stage.program.units[unit])};
}

// A list with lines added before or after those of the list it was made from.
class Insertion {
 public:
  explicit Insertion(const List& list);
  void before(std::size_t line, Instr instr) { before_[line].push_back(std::move(instr)); }
  void after(std::size_t line, Instr instr) { after_[line].push_back(std::move(instr)); }
  // Lines added at one place keep the order in which they were added.
  List build() const;

 private:
  const List& list_;
  std::vector<List> before_;  // one entry a line, and one for the end
  std::vector<List> after_;
};

}  // namespace trireme::plan
