// Regular expressions and literal texts of a tokenizer.json, and the ways in which they cut a text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/text/tokenizer/aligned.h"
#include "trireme/formats/json_fields.h"

namespace trireme::text {

// A compiled pattern. Invalid UTF-8 separates matches and never fails. Safe to share between threads.
class Pattern {
 public:
  // A regular expression in Oniguruma's syntax with Unicode classes. Throws Error{kData} beginning with `what` if it does
  // not compile.
  static Pattern regex(const std::string& expression, const std::string& what);
  static Pattern literal(std::string_view text);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  // Matches in order, none of them empty.
  std::vector<Range> matches(std::string_view text) const;

 private:
  struct Compiled;
  Pattern();

  std::string literal_;
  std::unique_ptr<Compiled> compiled_;
};

// Reads {"String": "x"} or {"Regex": "x"}.
Pattern read_pattern(const formats::JsonFields& fields, const char* key);

// Treatment of the matches of a pattern when a text is cut.
enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior read_behavior(const formats::JsonFields& fields, const char* key);

// Appends the parts of `text`, none empty, each moved by `offset`. With `invert`, gaps between matches take the place of
// the matches.
void cut(std::string_view text, std::size_t offset, const Pattern& pattern, Behavior behavior,
         bool invert, std::vector<Range>& parts);

}  // namespace trireme::text
