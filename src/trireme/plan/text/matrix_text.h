// How a unit is updated, in its text.
#pragma once

#include <string>

#include "trireme/plan/program.h"
#include "trireme/plan/text/text_line.h"

namespace trireme::plan {

// " states=COUNT", " by_matrix", and " matrix=OFFSET:ROWS:COLS" for each, with ":OWNER" if it has one.
std::string print_updates(const Unit& unit);
// Eats those that come next.
void parse_updates(Line& line, Unit& unit);

}  // namespace trireme::plan
