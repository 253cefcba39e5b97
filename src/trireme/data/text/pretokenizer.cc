#include "trireme/data/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <cstdlib>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

// The pre-tokenizer that ByteLevel implies (GPT-2): contractions, letters, digits, other, white space; the
// last white-space character before a word belongs to the word.
constexpr char kByteLevelPattern[] =
    R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

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

}  // namespace

struct Splitter::Compiled {
  std::unique_ptr<pcre2_code, Freed<pcre2_code_free>> code;
};

Splitter::Splitter(const std::string& pattern, const std::string& what)
    : compiled_(std::make_unique<Compiled>()) {
  int error = 0;
  PCRE2_SIZE at = 0;
  compiled_->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                      PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at,
                                      nullptr));
  if (!compiled_->code)
    fail(ErrorKind::kData, "{}: pattern {} does not compile at {}: {}", what,
         formats::shown(pattern), at, pcre_message(error));
  // Interpreting would validate the whole subject on every match: quadratic.
  if (const int result = pcre2_jit_compile(compiled_->code.get(), PCRE2_JIT_COMPLETE); result != 0)
    fail(ErrorKind::kData, "{}: pattern {} cannot be compiled to machine code: {}", what,
         formats::shown(pattern), pcre_message(result));
}

Splitter::~Splitter() = default;
Splitter::Splitter(Splitter&&) noexcept = default;

void Splitter::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  const MatchData data(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  // A run of white space as long as a file backtracks once per character.
  const JitStack stack(pcre2_jit_stack_create(32 << 10, 64 << 20, nullptr));
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data.get());
  std::size_t at = 0;
  while (at < text.size()) {
    const int result = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                   text.size(), at, PCRE2_NOTEMPTY, data.get(), context.get());
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0)
      fail(ErrorKind::kData, "pre-tokenizer gives up after byte {}: {}", at, pcre_message(result));
    if (found[0] > at) pieces.push_back(text.substr(at, found[0] - at));
    pieces.push_back(text.substr(found[0], found[1] - found[0]));
    at = found[1];
  }
  if (at < text.size()) pieces.push_back(text.substr(at));
}

PreTokenizer::PreTokenizer(const Json& json, const std::string& what) {
  if (json.is_null())
    fail(ErrorKind::kData, "{}: has no pre_tokenizer; a byte-level one (ByteLevel) is needed",
         what);
  add(json, what);
  if (!byte_level_)
    fail(ErrorKind::kData, "{}: has no ByteLevel; only byte-level tokenizers are supported", what);
}

void PreTokenizer::add(const Json& json, const std::string& what) {
  const formats::JsonFields fields(json, what);
  const std::string type = fields.string("type");
  if (byte_level_)
    fail(ErrorKind::kData, "{}: {} after ByteLevel is not supported", what, formats::shown(type));
  if (type == "Sequence") {
    for (const Json& step : fields.array("pretokenizers")) add(step, what);
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    add_prefix_space_ = fields.boolean("add_prefix_space");
    if (add_prefix_space_ && !splitters_.empty())
      fail(ErrorKind::kData, "{}: add_prefix_space after another pre-tokenizer is not supported",
           what);
    if (!fields.has("use_regex") || fields.boolean("use_regex"))
      splitters_.emplace_back(kByteLevelPattern, what);
  } else if (type == "Digits") {
    splitters_.emplace_back(fields.boolean("individual_digits") ? R"(\p{N})" : R"(\p{N}+)", what);
  } else if (type == "Split") {
    const formats::JsonFields pattern(fields.object("pattern"), what + ": pattern");
    pattern.only({"Regex"});
    if (fields.string("behavior") != "Isolated" || fields.boolean("invert"))
      fail(ErrorKind::kData,
           "{}: Split with behavior {} and invert {} is not supported, only Isolated and false",
           what, formats::shown(fields.string("behavior")), fields.boolean("invert"));
    splitters_.emplace_back(pattern.string("Regex"), what);
  } else {
    fail(ErrorKind::kData,
         "{}: type {} is not supported; Sequence, Split, Digits and ByteLevel are", what,
         formats::shown(type));
  }
}

std::vector<std::string_view> PreTokenizer::split(std::string_view text,
                                                  std::string& storage) const {
  if (add_prefix_space_ && !text.empty() && text.front() != ' ') {
    storage.assign(1, ' ').append(text);
    text = storage;
  }
  std::vector<std::string_view> pieces{text}, next;
  for (const Splitter& splitter : splitters_) {
    next.clear();
    for (const std::string_view piece : pieces) splitter.split(piece, next);
    pieces.swap(next);
  }
  return pieces;
}

Normalizer::Normalizer(const Json& json, const std::string& what) {
  if (json.is_null()) return;
  const formats::JsonFields fields(json, what);
  const std::string type = fields.string("type");
  constexpr int kCompose = UTF8PROC_STABLE | UTF8PROC_COMPOSE;
  constexpr int kDecompose = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
  if (type == "Sequence") {
    for (const Json& step : fields.array("normalizers")) {
      const Normalizer inner(step, what);
      forms_.insert(forms_.end(), inner.forms_.begin(), inner.forms_.end());
    }
  } else if (type == "NFC" || type == "NFKC") {
    forms_ = {kCompose | (type == "NFKC" ? UTF8PROC_COMPAT : 0)};
  } else if (type == "NFD" || type == "NFKD") {
    forms_ = {kDecompose | (type == "NFKD" ? UTF8PROC_COMPAT : 0)};
  } else {
    fail(ErrorKind::kData, "{}: type {} is not supported; NFC, NFD, NFKC, NFKD and Sequence are",
         what, formats::shown(type));
  }
}

std::string Normalizer::apply(std::string_view text) const {
  std::string out(text);
  for (const int form : forms_) {
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(out.data()),
        static_cast<utf8proc_ssize_t>(out.size()), &mapped, static_cast<utf8proc_option_t>(form));
    if (size < 0) fail(ErrorKind::kData, "cannot normalise the text: {}", utf8proc_errmsg(size));
    const std::unique_ptr<utf8proc_uint8_t, Freed<std::free>> owned(mapped);
    out.assign(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
  }
  return out;
}

}  // namespace trireme::text
