#include "completion.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"

namespace trireme::app {
namespace {

constexpr char kBash[] = R"--(_trireme() {
  local IFS=$'\n' line
  COMPREPLY=()
  for line in $(trireme complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    COMPREPLY+=("${line%%$'\t'*}")
  done
  [[ ${#COMPREPLY[@]} -ne 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
complete -o default -F _trireme trireme
)--";

constexpr char kZsh[] = R"--(#compdef trireme
_trireme() {
  local line word
  local -a names keys
  for line in ${(f)"$(trireme complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    word=${line%%$'\t'*}
    if [[ $word == *= ]]; then keys+=("$word"); else names+=("${word//:/\\:}:${line#*$'\t'}"); fi
  done
  if (( $#keys )); then compadd -S '' -a keys
  elif (( $#names )); then _describe trireme names
  else _files
  fi
}
compdef _trireme trireme
)--";

constexpr char kFish[] = R"--(function __trireme_complete
  set -l words (commandline -opc)
  set -e words[1]
  set -l current (commandline -ct)
  trireme complete -- $words "$current" 2>/dev/null
end
complete -c trireme -a '(__trireme_complete)'
)--";

bool is_hidden(const CLI::App& app) { return app.get_group().empty(); }

// Words after a command's name belong to that command; words after launch's -- are a command line of their own.
const CLI::App& app_of(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* app = &root;
  for (const std::string& word : words) {
    const auto subs = app->get_subcommands(
        [&](const CLI::App* sub) { return sub->get_name() == word && !is_hidden(*sub); });
    if (word == "--")
      app = &root;
    else if (!subs.empty())
      app = subs.front();
  }
  return *app;
}

// The values of an option that has a list of them: CLI11 shows it in braces.
std::vector<std::string> values_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t from = type.find('{'), to = type.find('}');
  std::vector<std::string> values;
  if (from == type.npos || to == type.npos) return values;
  std::string value;
  for (const char c : type.substr(from + 1, to - from - 1) + ",")
    if (c != ',')
      value += c;
    else
      values.push_back(std::exchange(value, {}));
  return values;
}

std::string first_clause(const std::string& text) {
  constexpr std::size_t kLongest = 60;
  return text.substr(0, std::min({text.find_first_of(".;\n"), text.size(), kLongest}));
}

void add_keys(std::vector<Candidate>& all, std::string_view end) {
  for (const config::Field& field : config::fields())
    all.push_back({.word = field.key + std::string(end), .about = first_clause(field.doc)});
}

void add_values(std::vector<Candidate>& all, const CLI::Option& option) {
  for (std::string& value : values_of(option)) all.push_back({.word = std::move(value)});
  if (option.check_name("--set")) add_keys(all, "=");
  if (option.check_name("--help-config")) add_keys(all, "");
}

void add_options(std::vector<Candidate>& all, const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames())
      all.push_back({.word = "--" + name, .about = first_clause(option->get_description())});
}

void add_commands(std::vector<Candidate>& all, const CLI::App& app) {
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!is_hidden(*sub))
      all.push_back({.word = sub->get_name(), .about = first_clause(sub->get_description())});
}

}  // namespace

std::vector<Candidate> candidates(const CLI::App& root, const std::vector<std::string>& words) {
  const std::string last = words.empty() ? "" : words.back();
  const std::vector<std::string> before(words.begin(), words.end() - (words.empty() ? 0 : 1));
  const CLI::App& app = app_of(root, before);
  const CLI::Option* const valued = before.empty() || !before.back().starts_with("--")
                                        ? nullptr
                                        : app.get_option_no_throw(before.back());
  std::vector<Candidate> all;
  if (valued != nullptr && valued->get_items_expected_max() > 0)
    add_values(all, *valued);
  else if (last.starts_with("-"))
    add_options(all, app);
  else if (app.get_option_no_throw("--set") != nullptr && last.find('.') != last.npos)
    add_keys(all, "=");
  else
    add_commands(all, app);
  std::erase_if(all, [&](const Candidate& one) { return !one.word.starts_with(last); });
  return all;
}

std::string completion_script(std::string_view shell) {
  if (shell == "bash") return kBash;
  if (shell == "zsh") return kZsh;
  if (shell == "fish") return kFish;
  fail(ErrorKind::kUsage, "completion {}: needs bash, zsh or fish", shell);
}

}  // namespace trireme::app
