// The words of a command line: as they were typed, and those that are not understood.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command_options.h"

namespace trireme::app {

// The words as a shell takes them.
std::string typed(int argc, char** argv);

// The subcommand that was being parsed, or was parsed.
CLI::App& innermost(CLI::App& app);

// Throws Error{kUsage} for what CLI11 could not parse, with the commands there are and those that may be meant.
[[noreturn]] void refuse(CLI::App& root, const CLI::ParseError& error, int argc, char** argv);
// The same of one command, of which these words were parsed.
[[noreturn]] void refuse_words(const CLI::App& app, const CLI::ParseError& error,
                               const std::vector<std::string>& words);
// Of an option that the command does not have: with those that may be meant.
[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word);

struct CompletionOptions {
  std::string shell;
  std::vector<std::string> words;
};

// `completion SHELL`, which prints a script, and `complete -- WORDS`, which the script asks.
void add_completion(CLI::App& root, CompletionOptions& o, Run& run);

}  // namespace trireme::app
