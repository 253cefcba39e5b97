// Files that commands write at the end of long work.
#pragma once

#include <string>

namespace trireme::app {

// Nothing to do for an empty name. Throws Error{kUsage} where a file of that name could not be written.
void check_output(const std::string& file);

}  // namespace trireme::app
