// Files that commands write at the end of long work, and lines that stand out.
#pragma once

#include <string>
#include <string_view>

namespace trireme::app {

// Nothing to do for an empty name. Throws Error{kUsage} beginning with the option where a file of that name could not be
// written.
void check_output(const std::string& file, std::string_view key = "--json");

// A line of stdout, "warning   TEXT", yellow on a terminal.
void print_warning(std::string_view text);

}  // namespace trireme::app
