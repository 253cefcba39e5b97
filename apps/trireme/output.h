// Files that commands write at the end of long work.
#pragma once

#include <string>
#include <string_view>

namespace trireme::app {

// Nothing to do for an empty name. Throws Error{kUsage} beginning with the option where a file of that name could not be
// written.
void check_output(const std::string& file, std::string_view key = "--json");

}  // namespace trireme::app
