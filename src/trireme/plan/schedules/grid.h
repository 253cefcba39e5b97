// Grid: in which order each pipeline rank computes which micro-batch of which stage, and what that costs.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::schedules {

// F, B, I, W. A backward is unsplit (B), or split into gradients of the stage's inputs (I), then of its parameters (W).
enum class Work : std::uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };
char letter(Work work);

struct Action {
  Work work = Work::kForward;
  int chunk = 0;  // of this rank, in the order of the model
  int mb = 0;
  auto operator<=>(const Action&) const = default;
};

using Row = std::vector<Action>;  // of one pipeline rank, in order of execution

// Loop: stage s is on rank s mod ranks. V: two chunks, ranks 0..p-1 and back p-1..0.
enum class Placement { kLoop, kV };

struct Grid {
  Placement placement = Placement::kLoop;
  int chunks = 1;  // of every rank
  int micro_batches = 0;
  std::vector<Row> rows{};  // by pipeline rank
  int ranks() const { return static_cast<int>(rows.size()); }
  bool operator==(const Grid&) const = default;
};

// Stages count 0 .. ranks*chunks-1 in the order of the model.
int rank_of(Placement placement, int ranks, int stage);
int chunk_of(Placement placement, int ranks, int stage);
int stage_of(Placement placement, int ranks, int rank, int chunk);

// "2F0": stage 2, forward, micro-batch 0.
std::string text(const Grid& grid, int rank, Action action);

// Time of one micro-batch on one stage, in any unit; a whole backward takes input + weight.
struct StageCost {
  double forward = 1;
  double input = 1;
  double weight = 1;
  bool operator==(const StageCost&) const = default;
};

struct ScheduleShape {
  int ranks = 1;
  int chunks = 1;
  int micro_batches = 1;
  std::vector<StageCost> stages{};  // of every stage; empty: all 1
  double transfer = 0;              // between neighbouring stages on different ranks
  // Activations that zb_auto and v_auto may hold, as a multiple of 1F1B's peak (`ranks` micro-batches). `kept`: the
  // share of a micro-batch's activations that W still needs after I. It is about half if attention keeps its
  // probabilities, nearly 1 if not. v_auto counts all of them until W.
  double activation_limit = 1;
  double kept = 0.5;
  // Whether all ranks meet at the end of a step: searches then want a short `makespan`, else a short `longest_rank`.
  bool barrier = false;
};

struct GridTimes {
  std::vector<std::vector<std::pair<double, double>>> at{};  // start and end of every action
  double makespan = 0;
  // Time from the first start to the last end of a rank, maximum over ranks: the cost in the zero-bubble paper (Qi et
  // al. 2023), whose steps have no barrier at their end.
  double longest_rank = 0;
  std::vector<double> peak_activations{};  // by rank: peak_activations(grid)
  std::vector<double> peak_memory{};       // the same with the shape's `kept`
};

// Exact: an action starts when its rank is free and what it needs is there. The grid must be one that
// check_grid accepts.
GridTimes time_grid(const Grid& grid, const ScheduleShape& shape);

// By rank, in micro-batches of a rank's whole share, so that a chunk counts 1/chunks. Held from F to the end of B. For
// a split backward all is held to the end of I, and `kept` of it to the end of W.
std::vector<double> peak_activations(const Grid& grid, double kept = 1);

// An error of a grid, and its place: the rank and the index in its row.
struct GridFault {
  int rank = 0;
  std::size_t place = 0;
  std::string reason{};
};

// Nothing if three conditions hold. Every micro-batch runs once through every stage, F before I (or B) before W. On a
// stage each of the three is in ascending order of micro-batches. The ranks never wait for each other in a circle.
std::optional<GridFault> find_fault(const Grid& grid);

// Throws Error{kInternal} with rank, place and action of what find_fault finds.
void check_grid(const Grid& grid);

}  // namespace trireme::schedules
