// Which lines of which ranks meet: one definition for the validator and the simulator.
#pragma once

#include <utility>
#include <vector>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// Whether `line` of a list of `stage` and `theirs` of a list of `their_stage` are one collective, or the two sides of
// one transfer. They must be equal in every field except `after`, which belongs to each list. The sides of a transfer
// name each other.
bool meets(const Instr& line, int stage, const Instr& theirs, int their_stage);

// The axes over which ranks meet in a line that is no transfer: a collective's, or those of what a node exchanges in it.
mesh::AxisSet meeting_axes(const Program& program, const Instr& line);

// Participants of a line. A walker represents ranks that move through one list together.
class Meetings {
 public:
  Meetings(const PlanSet& plan, std::vector<int> walker_of_rank);

  // Walkers that take part in a line of a walker, ascending: itself, and those of other ranks.
  std::vector<int> participants(int walker, const Instr& line);
  // The first rank of a walker, and the walker of its peer on another stage.
  int rank_of(int walker) const { return ranks_[walker]; }
  int peer_of(int walker, int stage) const;

 private:
  const std::vector<int>& group(int walker, mesh::AxisSet axes);

  const PlanSet& plan_;
  std::vector<int> walkers_;  // of ranks
  std::vector<int> ranks_;    // of walkers
  std::vector<std::vector<int>> stages_of_unit_;
  std::vector<std::vector<std::pair<mesh::AxisSet, std::vector<int>>>> groups_;  // of walkers
};

}  // namespace trireme::plan
