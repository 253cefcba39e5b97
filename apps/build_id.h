// What of the programs' output says by which build it was made.
#pragma once

#include <string>

namespace trireme::app {

// Of both programs: version and commit.
std::string build_id();

}  // namespace trireme::app
