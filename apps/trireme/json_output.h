// --json: a command's table for programs.
#pragma once

#include <functional>
#include <string>

#include "trireme/base/json.h"

namespace CLI {
class App;
}

namespace trireme::app {

// The option, with one spelling for all commands that print a table.
void add_json_option(CLI::App& app, std::string& file);

// Nothing for an empty name. Throws Error{kData} where the file cannot be written.
void write_json(const std::string& file, const Json& json);

// Runs a parsed command. With `--json -` its JSON goes to stdout and everything else it prints to stderr.
int run_with_json(CLI::App& app, const std::function<int()>& run);

}  // namespace trireme::app
