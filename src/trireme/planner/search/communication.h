// Ways of communication between hosts: what they send, how long steps take with them, and which may be chosen.
#pragma once

#include <string>
#include <vector>

#include "trireme/planner/search/search.h"

namespace trireme::planner {

// Names of approximate ways, in the order in which they are listed.
std::vector<std::string> approximate_ways();
// Throws Error{kUsage} for an unknown name.
void check_allowed(const std::vector<std::string>& names);

// Prices all ways on the best layout where it is on several hosts, and the settings or the cluster give a reason to. The
// fastest that may be chosen becomes the best option's.
void compare_communications(Answer& answer, const Settings& settings);

}  // namespace trireme::planner
