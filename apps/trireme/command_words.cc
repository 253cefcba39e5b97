#include "command_words.h"

#include <fmt/core.h>

#include <string_view>

#include "completion.h"
#include "trireme/base/error.h"
#include "trireme/config/field.h"

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

CLI::App& innermost(CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.front());
}

void refuse(CLI::App& root, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App& app = innermost(root);
  std::string path;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent())
    path = at->get_name() + (path.empty() ? "" : " ") + path;
  const std::vector<std::string> names = commands_of(app);
  if (names.empty()) fail(ErrorKind::kUsage, "{}; see {} --help", error.what(), path);
  const int depth = &app == &root ? 1 : 2;
  if (argc <= depth) fail(ErrorKind::kUsage, "{} needs a command: {}", path, listed(names));
  const std::string meant = config::nearest(argv[depth], names).value_or("");
  fail(ErrorKind::kUsage, "unknown command '{}'; {}{}{} has: {}", argv[depth], meant,
       meant.empty() ? "" : " ", path, listed(names));
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
