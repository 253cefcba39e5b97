// Identity of the build in the programs' output.
#pragma once

#include <string>

namespace trireme::app {

// Version and commit of both programs.
std::string build_id();

}  // namespace trireme::app
