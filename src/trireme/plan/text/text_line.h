// A line of a plan's text as its parser reads it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/plan/instr.h"

namespace trireme::plan {

// One line of the text, eaten word by word from the left.
class Line {
 public:
  Line(int number, std::string_view text) : number_(number), rest_(text) {}

  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kData, "plan line {}: {}", number_,
         fmt::format(format, std::forward<Args>(args)...));
  }

  bool done() {
    skip_blanks();
    return rest_.empty();
  }
  std::string_view word() {
    skip_blanks();
    if (rest_.empty()) refuse("ends too early");
    const std::string_view result = rest_.substr(0, std::min(rest_.find(' '), rest_.size()));
    rest_.remove_prefix(result.size());
    return result;
  }
  // Eats `key=value` or the bare word `key` if it comes next.
  std::optional<std::string_view> optional(std::string_view key) {
    skip_blanks();
    if (!rest_.starts_with(key) || rest_.substr(key.size(), 1) != "=") return std::nullopt;
    return word().substr(key.size() + 1);
  }
  bool flag(std::string_view key) {
    skip_blanks();
    if (rest_.substr(0, std::min(rest_.find(' '), rest_.size())) != key) return false;
    word();
    return true;
  }
  std::string_view required(std::string_view key) {
    const std::optional<std::string_view> value = optional(key);
    if (!value) refuse("needs {}=... before \"{}\"", key, rest_);
    return *value;
  }
  void expect(std::string_view expected) {
    const std::string_view seen = word();
    if (seen != expected) refuse("starts with \"{}\", needs \"{}\"", seen, expected);
  }
  void end() {
    if (!done()) refuse("\"{}\" does not belong here", rest_);
  }

  template <typename Number>
  Number number(std::string_view text) const {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      refuse("\"{}\" is not a number", text);
    return value;
  }
  bool yes(std::string_view text) const {
    if (text != "yes" && text != "no") refuse("\"{}\" is neither yes nor no", text);
    return text == "yes";
  }
  // One of the names of an enumeration with `count` entries.
  template <typename Enum>
  Enum one_of(std::string_view text, int count) const {
    for (int i = 0; i < count; ++i)
      if (name(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
    refuse("\"{}\" is not a word of the plan's text", text);
  }
  int number() const { return number_; }

 private:
  void skip_blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }

  int number_;
  std::string_view rest_;
};

inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

}  // namespace trireme::plan
