// A list as its schedule has it: actions on chunks, read back from lines on nodes. Pictures and refusals show it.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/grid.h"

namespace trireme::plan {

// Neighbouring lines that compute one micro-batch of one chunk in one direction; communication between them
// does not part them.
struct ActionLines {
  schedules::Action action;
  int first = 0;  // lines of the list
  int last = 0;
};
std::vector<ActionLines> actions(const Program& program, const List& list);

// Rows of the stages' first ranks.
schedules::Grid grid_of(const PlanSet& plan);

// "F0" where ranks have one chunk, else "2F0": the stage in the order of the model comes first.
std::string action_text(const schedules::Grid& grid, int rank, const schedules::Action& action);

// By list: how many micro-batches hold what their forwards kept, at most. A chunk counts 1/chunks, as in
// schedules::GridTimes.
std::vector<double> peak_activations(const PlanSet& plan);

// A line that is in question.
struct Mark {
  int rank = 0;
  int line = 0;
};

// "  rank 1: F0 F1 >B0< F2": a row for each mark, with the actions around the marked one. It has the line or, for a
// transfer, produces or uses its value. Nothing of plans without a pipeline.
std::string marked_rows(const PlanSet& plan, const std::vector<Mark>& marks);

// The schedule with idle places, "stage 0   F0 F1 .. B0 --": every action is at its place under unit times, where a
// whole backward takes two. At most `rows` rows of `columns`; what does not fit is left out of the middle.
std::string schedule_text(const PlanSet& plan, int rows, int columns);

// Stages to show in `rows` rows: all, or the first and the last ones, with a -1 between.
std::vector<int> shown_stages(int stages, int rows);

}  // namespace trireme::plan
