#include "trireme/base/patterns.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// "12" or "2-11".
struct Numbers {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

// Eats digits from the left.
bool eat_number(std::string_view& text, std::uint64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// Removes the bracket at the beginning of `pattern` and returns its numbers; nothing if it contains something else.
std::optional<Numbers> eat_bracket(std::string_view& pattern) {
  Numbers numbers;
  pattern.remove_prefix(1);
  bool good = eat_number(pattern, numbers.first);
  numbers.last = numbers.first;
  if (good && pattern.starts_with('-')) {
    pattern.remove_prefix(1);
    good = eat_number(pattern, numbers.last);
  }
  if (!good || !pattern.starts_with(']') || numbers.first > numbers.last) return std::nullopt;
  pattern.remove_prefix(1);
  return numbers;
}

bool has_good_brackets(std::string_view pattern) {
  for (std::size_t at = pattern.find('['); at != pattern.npos; at = pattern.find('[')) {
    pattern.remove_prefix(at);
    if (!eat_bracket(pattern)) return false;
  }
  return true;
}

// Eats what is no star from the left of both, if it fits; else `pattern` is no more of use.
bool eat_one(std::string_view& pattern, std::string_view& name) {
  if (pattern[0] == '[') {
    const std::optional<Numbers> wanted = eat_bracket(pattern);
    std::uint64_t number = 0;
    return wanted && eat_number(name, number) && number >= wanted->first && number <= wanted->last;
  }
  if (name.empty() || (pattern[0] != '?' && pattern[0] != name[0])) return false;
  pattern.remove_prefix(1);
  name.remove_prefix(1);
  return true;
}

}  // namespace

// The text between two stars is best matched where it ends first, so that only the last star ever takes more. A walk
// back over all stars would take a time exponential in their number.
bool matches(std::string_view pattern, std::string_view name) {
  std::optional<std::string_view> after_star;
  std::string_view rest;  // of the name, after the star's match
  while (!pattern.empty() || !name.empty()) {
    if (pattern.starts_with('*')) {
      pattern.remove_prefix(1);
      after_star = pattern;
      rest = name;
    } else if (pattern.empty() || !eat_one(pattern, name)) {
      if (!after_star || rest.empty()) return false;
      rest.remove_prefix(1);
      pattern = *after_star;
      name = rest;
    }
  }
  return true;
}

void check_patterns(std::string_view key, std::string_view patterns) {
  for (std::string_view pattern : split_list(patterns))
    if (!has_good_brackets(pattern))
      fail(ErrorKind::kUsage,
           "{}={}: the brackets of \"{}\" hold no number or range, such as [0-11]", key, patterns,
           pattern);
}

std::vector<std::size_t> select(std::string_view key, std::string_view patterns,
                                const std::vector<std::string>& names) {
  check_patterns(key, patterns);
  std::vector<bool> chosen(names.size(), false);
  for (std::string_view pattern : split_list(patterns)) {
    bool found = false;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (matches(pattern, names[i])) chosen[i] = found = true;
    if (found) continue;
    std::string some;
    for (std::size_t i = 0; i < std::min<std::size_t>(names.size(), 3); ++i)
      some += (i == 0 ? "" : ", ") + names[i];
    fail(ErrorKind::kUsage, "{}={}: \"{}\" matches none of the {} names {}{}", key, patterns,
         pattern, names.size(), some, names.size() > 3 ? " .. " + names.back() : "");
  }
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < names.size(); ++i)
    if (chosen[i]) result.push_back(i);
  return result;
}

std::vector<std::string_view> split_list(std::string_view list) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t at = list.find(',');
    std::string_view piece = list.substr(0, at);
    while (piece.starts_with(' ')) piece.remove_prefix(1);
    while (piece.ends_with(' ')) piece.remove_suffix(1);
    pieces.push_back(piece);
    if (at == std::string_view::npos) return pieces;
    list.remove_prefix(at + 1);
  }
}

}  // namespace trireme
