// The scoreboard speaks of the planner's things by their names.
#pragma once

namespace trireme::planner {}

namespace trireme::scoreboard {
using namespace planner;
}  // namespace trireme::scoreboard
