// Words of a command line as typed, and errors for unknown words.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "command_options.h"

namespace trireme::app {

// The command line quoted for a shell.
std::string typed(int argc, char** argv);

// Turns `help COMMAND` into `COMMAND --help`.
void take_help(int argc, char** argv);

// The subcommand that is or was being parsed.
CLI::App& innermost(CLI::App& app);

// Throws Error{kUsage} for words that CLI11 could not parse, with the existing commands and similar names.
[[noreturn]] void refuse(CLI::App& root, const CLI::ParseError& error, int argc, char** argv);
// The same for one command and its parsed words.
[[noreturn]] void refuse_words(const CLI::App& app, const CLI::ParseError& error,
                               const std::vector<std::string>& words);
// Throws Error{kUsage} for an unknown option of the command, with similar options.
[[noreturn]] void refuse_option(const CLI::App& app, const std::string& word);

struct CompletionOptions {
  std::string shell;
  std::vector<std::string> words;
};

// `completion SHELL` prints a script; the script calls `complete -- WORDS`.
void add_completion(CLI::App& root, CompletionOptions& o, Run& run);

}  // namespace trireme::app
