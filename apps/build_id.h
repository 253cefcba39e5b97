// Identity of the build in the programs' output.
#pragma once

#include <string>

namespace trireme::app {

// Of both programs: version and commit.
std::string build_id();

}  // namespace trireme::app
