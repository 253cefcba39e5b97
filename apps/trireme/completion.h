// Candidates that a shell offers while a command line of trireme is typed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace trireme::app {

struct Candidate {
  std::string word;
  std::string about{};  // a few words, may be empty
};

// Possible values of the last word, which may be empty: commands, options, values of options that have a list of them,
// keys of a job. `words` follow `trireme`. No candidates: a file name, or anything.
std::vector<Candidate> candidates(const CLI::App& root, const std::vector<std::string>& words);

// The script that makes bash, zsh or fish ask for them. Throws Error{kUsage} for another shell.
std::string completion_script(std::string_view shell);

}  // namespace trireme::app
