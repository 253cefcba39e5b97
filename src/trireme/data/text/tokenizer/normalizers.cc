#include "trireme/data/text/tokenizer/normalizers.h"

#include <utf8proc.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/base64.h"
#include "trireme/data/text/tokenizer/charsmap.h"
#include "trireme/data/text/tokenizer/pattern.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

using formats::JsonFields;
using Steps = std::vector<Normalizer>;

// Each character becomes text(code); nothing: it stays.
template <typename Change>
Normalizer each(Change change) {
  return [change](Aligned& text) {
    const std::string_view from = text.text();
    need_utf8(from);
    Rewrite rewrite(text);
    for (std::size_t at = 0; at < from.size();) {
      const Character character = character_at(from, at);
      const Range range{at, at + character.size};
      if (const std::optional<std::string> put = change(character.code))
        rewrite.put(*put, range);
      else
        rewrite.copy(range);
      at = range.end;
    }
    text = rewrite.take();
  };
}

Normalizer drop_if(bool (*drops)(std::int32_t)) {
  return each([drops](std::int32_t code) {
    return drops(code) ? std::optional<std::string>("") : std::nullopt;
  });
}

std::optional<std::string> lower_case(std::int32_t code) {
  if (code == 0x130) return "i\xCC\x87";  // the one character that becomes two
  const std::int32_t lower = utf8proc_tolower(code);
  if (lower == code) return std::nullopt;
  std::string text;
  append_utf8(text, lower);
  return text;
}

bool is_mark(std::int32_t code) {
  const auto category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
         category == UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing(std::int32_t code) { return utf8proc_category(code) == UTF8PROC_CATEGORY_MN; }

// BERT's clean_text: no control characters, and plain spaces.
std::optional<std::string> cleaned(std::int32_t code) {
  if (is_white_space(code)) return code == ' ' ? std::nullopt : std::optional<std::string>(" ");
  const auto category = utf8proc_category(code);
  const bool other = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
                     category == UTF8PROC_CATEGORY_CO;
  return code == 0xFFFD || other ? std::optional<std::string>("") : std::nullopt;
}

// The blocks that BERT's code lists.
std::optional<std::string> spaced_if_chinese(std::int32_t code) {
  constexpr std::pair<std::int32_t, std::int32_t> kBlocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  const bool chinese = std::ranges::any_of(
      kBlocks, [&](const auto& block) { return code >= block.first && code <= block.second; });
  if (!chinese) return std::nullopt;
  std::string text = " ";
  append_utf8(text, code);
  return text + " ";
}

// Nmt of SentencePiece's training: control characters go, odd spaces become plain.
std::optional<std::string> nmt(std::int32_t code) {
  const bool dropped = (code >= 0x01 && code <= 0x08) || code == 0x0B ||
                       (code >= 0x0E && code <= 0x1F) || code == 0x7F || code == 0x8F ||
                       code == 0x9F;
  if (dropped) return "";
  const bool space = code == 0x09 || code == 0x0A || code == 0x0C || code == 0x0D ||
                     code == 0x1680 || (code >= 0x200B && code <= 0x200F) || code == 0x2028 ||
                     code == 0x2029 || code == 0x2581 || code == 0xFEFF || code == 0xFFFD;
  return space ? std::optional<std::string>(" ") : std::nullopt;
}

Normalizer form(UnicodeForm which) {
  return [which](Aligned& text) { normalize(text, which); };
}

Normalizer strip(bool left, bool right) {
  return [left, right](Aligned& text) {
    const std::string_view from = text.text();
    Range kept{0, from.size()};
    if (left)
      while (kept.begin < kept.end && is_white_space(character_at(from, kept.begin).code))
        kept.begin += character_at(from, kept.begin).size;
    for (std::size_t at = kept.end; right && at > kept.begin;) {
      --at;
      if ((static_cast<unsigned char>(from[at]) & 0xC0) == 0x80) continue;
      if (!is_white_space(character_at(from, at).code)) break;
      kept.end = at;
    }
    Rewrite rewrite(text);
    rewrite.copy(kept);
    text = rewrite.take();
  };
}

Normalizer replace(Pattern pattern, const std::string& content) {
  auto shared = std::make_shared<const Pattern>(std::move(pattern));
  return [shared, content](Aligned& text) {
    const std::vector<Range> matches = shared->matches(text.text());
    if (matches.empty()) return;
    Rewrite rewrite(text);
    std::size_t at = 0;
    for (const Range& match : matches) {
      rewrite.copy({at, match.begin});
      rewrite.put(content, match);
      at = match.end;
    }
    rewrite.copy({at, text.text().size()});
    text = rewrite.take();
  };
}

Normalizer prepend(const std::string& prefix) {
  return [prefix](Aligned& text) {
    if (text.text().empty()) return;
    Rewrite rewrite(text);
    rewrite.put(prefix, {0, character_at(text.text(), 0).size});
    rewrite.copy({0, text.text().size()});
    text = rewrite.take();
  };
}

// The reference looks up a short grapheme cluster as a whole, then its characters, and takes the shortest replaceable
// beginning for all of it.
Normalizer precompiled(const std::string& bytes, const std::string& what) {
  auto map = std::make_shared<const Charsmap>(bytes, what);
  return [map](Aligned& text) {
    constexpr std::size_t kShort = 6;
    const std::string_view from = text.text();
    need_utf8(from);
    Rewrite rewrite(text);
    const auto put = [&](Range range, bool or_copy) {
      const auto match = map->shortest(slice(from, range));
      if (match)
        rewrite.put(match->text, range);
      else if (or_copy)
        rewrite.copy(range);
      return match.has_value();
    };
    for (std::size_t at = 0; at < from.size();) {
      Character last = character_at(from, at);
      std::size_t end = at + last.size;
      utf8proc_int32_t state = 0;
      while (end < from.size()) {
        const Character next = character_at(from, end);
        if (utf8proc_grapheme_break_stateful(last.code, next.code, &state)) break;
        end += next.size;
        last = next;
      }
      if (end - at >= kShort || !put({at, end}, false))
        for (std::size_t one = at; one < end;) {
          const std::size_t size = character_at(from, one).size;
          put({one, one + size}, true);
          one += size;
        }
      at = end;
    }
    text = rewrite.take();
  };
}

void read_bert(const JsonFields& fields, Steps& out) {
  fields.only({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"});
  const bool lower = fields.boolean("lowercase");
  const bool says = fields.has("strip_accents") && !fields.any("strip_accents").is_null();
  if (fields.boolean("clean_text")) out.push_back(each(cleaned));
  if (fields.boolean("handle_chinese_chars")) out.push_back(each(spaced_if_chinese));
  if (says ? fields.boolean("strip_accents") : lower) {
    out.push_back(form(UnicodeForm::kNfd));
    out.push_back(drop_if(is_nonspacing));
  }
  if (lower) out.push_back(each(lower_case));
}

bool read_plain(const std::string& type, Steps& out) {
  if (type == "NFC")
    out.push_back(form(UnicodeForm::kNfc));
  else if (type == "NFD")
    out.push_back(form(UnicodeForm::kNfd));
  else if (type == "NFKC")
    out.push_back(form(UnicodeForm::kNfkc));
  else if (type == "NFKD")
    out.push_back(form(UnicodeForm::kNfkd));
  else if (type == "Lowercase")
    out.push_back(each(lower_case));
  else if (type == "StripAccents")
    out.push_back(drop_if(is_mark));
  else if (type == "Nmt")
    out.push_back(each(nmt));
  else
    return false;
  return true;
}

void read_step_of_normalizer(const Json& json, const std::string& what, Steps& out) {
  const JsonFields fields(json, what);
  const std::string type = fields.string("type");
  if (read_plain(type, out)) {
    fields.only({"type"});
  } else if (type == "Sequence") {
    fields.only({"type", "normalizers"});
    for (const Json& step : fields.array("normalizers")) read_step_of_normalizer(step, what, out);
  } else if (type == "Strip") {
    fields.only({"type", "strip_left", "strip_right"});
    out.push_back(strip(fields.boolean("strip_left"), fields.boolean("strip_right")));
  } else if (type == "Replace") {
    fields.only({"type", "pattern", "content"});
    out.push_back(replace(read_pattern(fields, "pattern"), fields.string("content")));
  } else if (type == "Prepend") {
    fields.only({"type", "prepend"});
    out.push_back(prepend(fields.string("prepend")));
  } else if (type == "Precompiled") {
    fields.only({"type", "precompiled_charsmap"});
    const std::string where = what + ": precompiled_charsmap";
    out.push_back(
        precompiled(bytes_of_base64(fields.string("precompiled_charsmap"), where), where));
  } else if (type == "BertNormalizer") {
    read_bert(fields, out);
  } else {
    fail(ErrorKind::kData,
         "{}: type {} is not supported; Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, "
         "StripAccents, Replace, Prepend, Precompiled, Nmt and BertNormalizer are",
         what, formats::shown(type));
  }
}

}  // namespace

std::vector<Normalizer> read_normalizers(const Json& json, const std::string& what) {
  Steps out;
  if (!json.is_null()) read_step_of_normalizer(json, what, out);
  return out;
}

}  // namespace trireme::text
