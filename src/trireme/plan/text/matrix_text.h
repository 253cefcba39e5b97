// Matrices in the text of a unit.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/matrix.h"
#include "trireme/plan/text/text_line.h"

namespace trireme::plan {

// " matrix=OFFSET:ROWS:COLS" for each.
std::string print_matrices(const std::vector<Matrix>& matrices);
// Eats those that come next.
std::vector<Matrix> parse_matrices(Line& line);

}  // namespace trireme::plan
