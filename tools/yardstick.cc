// Compiled by ./dev to learn how fast this machine compiles: what a typical source costs, headers and templates.
#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  std::map<std::string, std::vector<std::function<bool(const std::string&)>>> checks;
  const std::regex number("[0-9]+(\\.[0-9]+)?"), name("[a-z_][a-z0-9_]*");
  checks["number"].push_back(
      [&](const std::string& text) { return std::regex_match(text, number); });
  checks["name"].push_back([&](const std::string& text) { return std::regex_match(text, name); });
  std::vector<std::string> words(argv + 1, argv + argc);
  std::sort(words.begin(), words.end(), std::greater<>());
  return static_cast<int>(std::count_if(words.begin(), words.end(), [&](const std::string& word) {
    return std::ranges::any_of(checks, [&](const auto& check) {
      return std::ranges::any_of(check.second, [&](const auto& holds) { return holds(word); });
    });
  }));
}
