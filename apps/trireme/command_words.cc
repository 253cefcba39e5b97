#include "command_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "completion.h"
#include "trireme/base/error.h"
#include "trireme/config/values/field.h"
#include "trireme/config/values/nearest.h"

namespace trireme::app {
namespace {

constexpr char kCompletionExamples[] = R"(
Examples:
  source <(trireme completion bash)                     # in ~/.bashrc
  source <(trireme completion zsh)                      # in ~/.zshrc, after compinit
  trireme completion fish > ~/.config/fish/completions/trireme.fish
)";

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!sub->get_group().empty()) names.push_back(sub->get_name());
  return names;
}

std::string listed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : " ") + name;
  return list;
}

// "--steps" of "--steps=3"; empty for what is no option.
std::string option_name(const std::string& word) {
  return word.starts_with("--") && word.size() > 2 ? word.substr(0, word.find('=')) : "";
}

// "trireme bench step".
std::string path_of(const CLI::App& app) {
  std::string path;
  const CLI::App* at = &app;
  for (; at->get_parent() != nullptr; at = at->get_parent()) path = " " + at->get_name() + path;
  return "trireme" + path;
}

std::vector<std::string> option_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

}  // namespace

std::string typed(int argc, char** argv) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%";
  std::string text = "trireme";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) {
      text += " " + std::string(word);
      continue;
    }
    text += " '";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += "'";
  }
  return text;
}

void take_help(int argc, char** argv) {
  static char help[] = "--help";
  if (argc < 2 || std::string_view(argv[1]) != "help") return;
  std::rotate(argv + 1, argv + 2, argv + argc);
  argv[argc - 1] = help;
}

CLI::App& innermost(CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

void refuse(CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App& app = innermost(root);
  const std::vector<std::string> names = commands_of(app);
  if (names.empty()) refuse_words(app, error, {argv + 1, argv + argc});
  const std::string path = path_of(app);
  const int depth = &app == &root ? 1 : 2;
  if (argc <= depth) fail(ErrorKind::kUsage, "{} needs a command: {}", path, listed(names));
  const std::string meant = config::nearest(argv[depth], names).value_or("");
  fail(ErrorKind::kUsage, "unknown command '{}'; {}{}{} has: {}", argv[depth], meant,
       meant.empty() ? "" : " ", path, listed(names));
}

void refuse_option(const CLI::App& app, const std::string& word) {
  const std::string name = option_name(word);
  const std::string meant = config::nearest(name, option_names(app)).value_or("");
  fail(ErrorKind::kUsage, "unknown option {}; {}{}see {} --help", name, meant,
       meant.empty() ? "" : " ", path_of(app));
}

void refuse_words(const CLI::App& app, const CLI::ParseError& error,
                  const std::vector<std::string>& words) {
  const std::vector<std::string> names = option_names(app);
  for (const std::string& word : words) {
    if (word == "--") break;
    const std::string name = option_name(word);
    if (!name.empty() && std::ranges::find(names, name) == names.end()) refuse_option(app, name);
  }
  fail(ErrorKind::kUsage, "{}; see {} --help", error.what(), path_of(app));
}

void add_completion(CLI::App& root, CompletionOptions& o, Run& run) {
  CLI::App& script = add_command(root, "completion", "Print the completion script of a shell",
                                 kCompletionExamples);
  script.add_option("SHELL", o.shell, "bash, zsh or fish")->required();
  script.callback([&] {
    run = [&] {
      fmt::print("{}", completion_script(o.shell));
      return 0;
    };
  });
  CLI::App& words = *root.add_subcommand("complete", "Print what may be typed next")->group("");
  words.add_option("WORDS", o.words, "words after trireme, of which the last is unfinished");
  words.callback([&] {
    run = [&] {
      for (const Candidate& one : candidates(root, o.words))
        fmt::print("{}\t{}\n", one.word, one.about);
      return 0;
    };
  });
}

}  // namespace trireme::app
