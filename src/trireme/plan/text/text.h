// Words of the plan's text, for messages and drawings.
#pragma once

#include <string>

#include "trireme/plan/plan.h"

namespace trireme::plan {

// "forward block0 mb=1 keep after=3": a line without its number and lane.
std::string line_text(const Program& program, const Instr& line);

std::string shape_text(const std::vector<std::int64_t>& shape);  // "4x32x64"
// Ascending numbers as ranges: "0-3,8".
std::string ranges_text(const std::vector<int>& numbers);

std::string grouped_text(std::int64_t number);  // "1,234,567"

}  // namespace trireme::plan
