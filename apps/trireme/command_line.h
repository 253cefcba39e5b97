// The command line of `trireme`.
#pragma once

namespace trireme::app {

// Parses and runs one subcommand. Throws Error{kUsage} for what it does not understand.
int run_command_line(int argc, char** argv);

}  // namespace trireme::app
