#include "trireme/data/text/tokenizer/pre_tokenizers.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/pattern.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

using formats::JsonFields;

// The cut that ByteLevel implies (GPT-2): contractions, letters, digits, other, white space; the last white-space
// character before a word belongs to the word.
constexpr char kByteLevelPattern[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr char kPunctuation[] = R"([\p{P}$+<=>^`|~])";

PreTokenizer split_by(Pattern pattern, Behavior behavior, bool invert = false) {
  auto shared = std::make_shared<const Pattern>(std::move(pattern));
  return [shared, behavior, invert](Words& words) {
    std::vector<Range> parts;
    const std::string_view text = words.text.text();
    for (const Range& word : words.ranges)
      cut(slice(text, word), word.begin, *shared, behavior, invert, parts);
    words.ranges = std::move(parts);
  };
}

// Rewrites each word with write(rewrite, word).
template <typename Write>
PreTokenizer rewrite_by(Write write) {
  return [write](Words& words) {
    Rewrite rewrite(words.text);
    for (Range& word : words.ranges) {
      const std::size_t begin = rewrite.size();
      write(words.text, rewrite, word);
      word = {begin, rewrite.size()};
    }
    words.text = rewrite.take();
  };
}

Range first_character(std::string_view text, std::size_t at) {
  return {at, at + character_at(text, at).size};
}

PreTokenizer prefix_space() {
  return rewrite_by([](const Aligned& from, Rewrite& to, Range word) {
    const std::string_view text = from.text();
    if (text[word.begin] != ' ') to.put(" ", first_character(text, word.begin));
    to.copy(word);
  });
}

enum class Prepend { kAlways, kFirst, kNever };

PreTokenizer replace_spaces(const std::string& mark, Prepend prepend) {
  return rewrite_by([mark, prepend](const Aligned& from, Rewrite& to, Range word) {
    const std::string_view text = from.text();
    const bool marked = text[word.begin] == ' ' || slice(text, word).starts_with(mark);
    const Range first = first_character(text, word.begin);
    const bool wanted = prepend == Prepend::kAlways ||
                        (prepend == Prepend::kFirst && from.source(first).begin == 0);
    if (wanted && !marked) to.put(mark, first);
    for (std::size_t at = word.begin; at < word.end; ++at)
      if (text[at] == ' ')
        to.put(mark, {at, at + 1});
      else
        to.copy({at, at + 1});
  });
}

void read_metaspace(const JsonFields& fields, PreTokenizers& out) {
  fields.only({"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
  const std::string mark = fields.string("replacement");
  if (mark.empty() || character_at(mark, 0).size != mark.size())
    fail(ErrorKind::kData, "{}: replacement {} is not one character", fields.where(),
         formats::shown(mark));
  const bool prefix = !fields.has("add_prefix_space") || fields.boolean("add_prefix_space");
  const std::string scheme = fields.has("prepend_scheme") ? fields.string("prepend_scheme")
                             : prefix                     ? "always"
                                                          : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fail(ErrorKind::kData, "{}: prepend_scheme {} is unknown; always, first and never are known",
         fields.where(), formats::shown(scheme));
  out.needs_sources |= scheme == "first";
  out.steps.push_back(replace_spaces(mark, scheme == "always"  ? Prepend::kAlways
                                           : scheme == "first" ? Prepend::kFirst
                                                               : Prepend::kNever));
  if (!fields.has("split") || fields.boolean("split"))
    out.steps.push_back(split_by(Pattern::literal(mark), Behavior::kMergedWithNext));
}

void read_byte_level(const JsonFields& fields, PreTokenizers& out) {
  fields.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  out.byte_level = true;
  if (fields.boolean("add_prefix_space")) out.steps.push_back(prefix_space());
  if (!fields.has("use_regex") || fields.boolean("use_regex"))
    out.steps.push_back(
        split_by(Pattern::regex(kByteLevelPattern, fields.where()), Behavior::kIsolated));
}

void read_step(const Json& json, const std::string& what, PreTokenizers& out) {
  const JsonFields fields(json, what);
  const std::string type = fields.string("type");
  const auto regex = [&](const char* expression, Behavior behavior) {
    out.steps.push_back(split_by(Pattern::regex(expression, what), behavior));
  };
  if (out.byte_level)
    fail(ErrorKind::kData, "{}: {} after ByteLevel is not supported", what, formats::shown(type));
  if (type == "Sequence") {
    fields.only({"type", "pretokenizers"});
    for (const Json& step : fields.array("pretokenizers")) read_step(step, what, out);
  } else if (type == "ByteLevel") {
    read_byte_level(fields, out);
  } else if (type == "Split") {
    fields.only({"type", "pattern", "behavior", "invert"});
    out.steps.push_back(split_by(read_pattern(fields, "pattern"), read_behavior(fields, "behavior"),
                                 fields.boolean("invert")));
  } else if (type == "Digits") {
    fields.only({"type", "individual_digits"});
    regex(R"(\p{N})",
          fields.boolean("individual_digits") ? Behavior::kIsolated : Behavior::kContiguous);
  } else if (type == "Metaspace") {
    read_metaspace(fields, out);
  } else if (type == "Whitespace" || type == "WhitespaceSplit" || type == "BertPreTokenizer") {
    fields.only({"type"});
    regex(R"(\s)", Behavior::kRemoved);
    if (type == "Whitespace")
      regex(R"((?:(?![\xB2\xB3\xB9\xBC-\xBE])[\w\x{200C}\x{200D}])+)", Behavior::kIsolated);
    if (type == "BertPreTokenizer") regex(kPunctuation, Behavior::kIsolated);
  } else if (type == "Punctuation") {
    fields.only({"type", "behavior"});
    regex(kPunctuation,
          fields.has("behavior") ? read_behavior(fields, "behavior") : Behavior::kIsolated);
  } else if (type == "CharDelimiterSplit") {
    fields.only({"type", "delimiter"});
    out.steps.push_back(split_by(Pattern::literal(fields.string("delimiter")), Behavior::kRemoved));
  } else {
    fail(ErrorKind::kData,
         "{}: type {} is not supported; Sequence, ByteLevel, Split, Digits, Metaspace, Whitespace, "
         "WhitespaceSplit, Punctuation, BertPreTokenizer and CharDelimiterSplit are",
         what, formats::shown(type));
  }
}

}  // namespace

PreTokenizers read_pre_tokenizers(const Json& json, const std::string& what) {
  PreTokenizers out;
  if (!json.is_null()) read_step(json, what, out);
  return out;
}

}  // namespace trireme::text
