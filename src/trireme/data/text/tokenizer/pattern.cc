#include "trireme/data/text/tokenizer/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

template <auto Free>
struct Freed {
  template <typename T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

std::string pcre_message(int code) {
  unsigned char text[256] = {};
  pcre2_get_error_message(code, text, sizeof(text));
  return reinterpret_cast<const char*>(text);
}

// Members of \s and \w where PCRE2 has others than Oniguruma, by release: its white space includes U+180E, and its words
// leave out marks, and the superscripts and fractions of Latin-1.
constexpr char kSpaces[] =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr char kOtherThanSpaces[] =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027})"
    R"(\x{202A}-\x{202E}\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr char kWords[] =
    R"(\xB2\xB3\xB9\xBC-\xBE\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149})"
    R"(\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";

std::string with_own_classes(const std::string& expression, const std::string& what) {
  std::string out;
  bool in_class = false;
  for (std::size_t at = 0; at < expression.size(); ++at) {
    const char c = expression[at];
    if (c != '\\' || at + 1 == expression.size()) {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out += c;
      continue;
    }
    const char escaped = expression[++at];
    const auto members = [&](const char* plain) {
      out += in_class ? plain : fmt::format("[{}]", plain);
    };
    switch (escaped) {
      case 's': members(kSpaces); break;
      case 'S': members(kOtherThanSpaces); break;
      case 'w': members(kWords); break;
      case 'W':
        if (in_class)
          fail(ErrorKind::kData, "{}: pattern {} has \\W inside [], which is not supported", what,
               formats::shown(expression));
        out += fmt::format("[^{}]", kWords);
        break;
      default: out += {c, escaped};
    }
  }
  return out;
}

}  // namespace

struct Pattern::Compiled {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
};

Pattern::Pattern() = default;
Pattern::~Pattern() = default;
Pattern::Pattern(Pattern&&) noexcept = default;

Pattern Pattern::literal(std::string_view text) {
  Pattern made;
  made.literal_ = text;
  return made;
}

Pattern Pattern::regex(const std::string& expression, const std::string& what) {
  int error = 0;
  PCRE2_SIZE at = 0;
  const std::string own = with_own_classes(expression, what);
  Pattern made;
  made.compiled_ = std::make_unique<Compiled>();
  auto& code = made.compiled_->code;
  code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(own.data()), own.size(),
                           PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr));
  if (!code)
    fail(ErrorKind::kData, "{}: pattern {} does not compile: {}", what, formats::shown(expression),
         pcre_message(error));
  // Interpreting would validate the whole subject on every match: quadratic.
  if (const int result = pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE); result != 0)
    fail(ErrorKind::kData, "{}: pattern {} cannot be compiled to machine code: {}", what,
         formats::shown(expression), pcre_message(result));
  return made;
}

std::vector<Range> Pattern::matches(std::string_view text) const {
  std::vector<Range> all;
  if (!compiled_) {
    if (literal_.empty()) return all;
    for (std::size_t at = text.find(literal_); at != text.npos;
         at = text.find(literal_, at + literal_.size()))
      all.push_back({at, at + literal_.size()});
    return all;
  }
  const MatchData data(pcre2_match_data_create(1, nullptr));
  MatchContext context;
  JitStack stack;
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
  const auto match = [&](std::size_t at) {
    return pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                       text.size(), at, PCRE2_NOTEMPTY, data.get(), context.get());
  };
  for (std::size_t at = 0; at < text.size(); at = found[1]) {
    int result = match(at);
    // A run of white space as long as a file backtracks once per character.
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && !context) {
      context.reset(pcre2_match_context_create(nullptr));
      stack.reset(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      result = match(at);
    }
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      fail(ErrorKind::kData, "a pattern of the tokenizer gives up after byte {}: {}", at,
           pcre_message(result));
    all.push_back({found[0], found[1]});
  }
  return all;
}

Pattern read_pattern(const formats::JsonFields& fields, const char* key) {
  const formats::JsonFields pattern(fields.object(key), fields.where() + ": " + key);
  pattern.only({"String", "Regex"});
  if (pattern.has("Regex")) return Pattern::regex(pattern.string("Regex"), pattern.where());
  return Pattern::literal(pattern.string("String"));
}

Behavior read_behavior(const formats::JsonFields& fields, const char* key) {
  constexpr std::pair<std::string_view, Behavior> kNames[] = {
      {"Removed", Behavior::kRemoved},
      {"Isolated", Behavior::kIsolated},
      {"MergedWithPrevious", Behavior::kMergedWithPrevious},
      {"MergedWithNext", Behavior::kMergedWithNext},
      {"Contiguous", Behavior::kContiguous}};
  const std::string name = fields.string(key);
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  fail(ErrorKind::kData,
       "{}: {} {} is unknown; Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous "
       "are known",
       fields.where(), key, formats::shown(name));
}

void cut(std::string_view text, std::size_t offset, const Pattern& pattern, Behavior behavior,
         bool invert, std::vector<Range>& parts) {
  struct Segment {
    Range range;
    bool match;
  };
  std::vector<Segment> segments;
  std::size_t at = 0;
  for (const Range& match : pattern.matches(text)) {
    if (match.begin > at) segments.push_back({{at, match.begin}, invert});
    segments.push_back({match, !invert});
    at = match.end;
  }
  if (at < text.size()) segments.push_back({{at, text.size()}, invert});

  const auto add = [&](const Range& range) {
    parts.push_back({range.begin + offset, range.end + offset});
  };
  bool previous = false;
  switch (behavior) {
    case Behavior::kIsolated:
      for (const Segment& segment : segments) add(segment.range);
      return;
    case Behavior::kRemoved:
      for (const Segment& segment : segments)
        if (!segment.match) add(segment.range);
      return;
    case Behavior::kContiguous:
    case Behavior::kMergedWithPrevious: {
      bool first = true;
      for (const Segment& segment : segments) {
        const bool joins = behavior == Behavior::kContiguous ? segment.match == previous
                                                             : segment.match && !previous;
        if (joins && !first)
          parts.back().end = segment.range.end + offset;
        else
          add(segment.range);
        previous = segment.match;
        first = false;
      }
      return;
    }
    case Behavior::kMergedWithNext: {
      const auto begun = static_cast<std::ptrdiff_t>(parts.size());
      for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
        if (segment->match && !previous && std::ssize(parts) > begun)
          parts.back().begin = segment->range.begin + offset;
        else
          add(segment->range);
        previous = segment->match;
      }
      std::reverse(parts.begin() + begun, parts.end());
      return;
    }
  }
}

}  // namespace trireme::text
