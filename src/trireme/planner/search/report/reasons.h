// Reasons: why each choice of a layout is as it is, from what its neighbours cost, and what would change it.
#pragma once

#include <string>
#include <vector>

#include "trireme/planner/search/screened.h"
#include "trireme/planner/search/search.h"

namespace trireme::planner {

// One sentence for every choice of the answer's first option: what the nearest other values would cost or need.
std::vector<Reason> reasons(const Answer& answer, const Screened& screened);

// The question asked again with 10 % more memory, half and twice the network between hosts, and half and twice the batch.
std::vector<Change> changes(const Answer& answer, const Screened& now);

// Untested features that the layout uses, and resources of the machine that the job does not use.
std::vector<std::string> notes(const Answer& answer);

}  // namespace trireme::planner
