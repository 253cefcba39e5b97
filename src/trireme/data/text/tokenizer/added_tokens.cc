#include "trireme/data/text/tokenizer/added_tokens.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/json_fields.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool touches_word(std::string_view text, Range match) {
  return (match.begin > 0 &&
          is_word(character_at(text, character_before(text, match.begin)).code)) ||
         (match.end < text.size() && is_word(character_at(text, match.end).code));
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const Json& list, std::int64_t limit,
                                          const std::string& what) {
  std::vector<AddedToken> tokens;
  for (const Json& item : list) {
    const formats::JsonFields fields(item, what);
    fields.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token{.content = fields.string("content"),
                     .id = static_cast<std::int32_t>(fields.integer("id", 0, limit)),
                     .left_strip = fields.boolean("lstrip"),
                     .right_strip = fields.boolean("rstrip"),
                     .normalized = fields.boolean("normalized"),
                     .single_word = fields.boolean("single_word"),
                     .special = fields.has("special") && fields.boolean("special")};
    if (token.content.empty()) fail(ErrorKind::kData, "{} {} is empty", what, token.id);
    tokens.push_back(std::move(token));
  }
  return tokens;
}

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens, bool normalized,
                         const std::vector<Normalizer>& normalizers) {
  std::ranges::copy_if(tokens, std::back_inserter(tokens_),
                       [&](const AddedToken& token) { return token.normalized == normalized; });
  std::ranges::stable_partition(tokens_, &AddedToken::special);
  for (AddedToken& token : tokens_) {
    const std::string raw = token.content;
    Aligned content(raw, 0, false);
    for (const Normalizer& normalizer : normalizers) normalizer(content);
    token.content = content.text();
  }
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < tokens_.size(); ++i)
    entries.emplace_back(tokens_[i].content, static_cast<std::int32_t>(i));
  trie_ = Trie(std::move(entries));
}

std::vector<AddedPart> AddedTokens::split(std::string_view text, Specials specials) const {
  std::vector<AddedPart> parts;
  std::size_t plain = 0;  // where the text not yet handed out begins
  for (std::size_t at = 0; at < text.size();) {
    const Trie::Match found = trie_.longest(text.substr(at));
    if (found.size == 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[found.value];
    Range match{at, at + found.size};
    at = match.end;
    // The reference does not try shorter tokens in place of one that may not be here.
    if (token.special && specials == Specials::kPlainText) continue;
    if (token.single_word && touches_word(text, match)) continue;
    while (token.left_strip && match.begin > plain) {
      const std::size_t before = character_before(text, match.begin);
      if (!is_white_space(character_at(text, before).code)) break;
      match.begin = before;
    }
    while (token.right_strip && match.end < text.size()) {
      const Character next = character_at(text, match.end);
      if (!is_white_space(next.code)) break;
      match.end += next.size;
    }
    if (plain < match.begin) parts.push_back({{plain, match.begin}});
    parts.push_back({match, token.id});
    plain = match.end;
  }
  if (plain < text.size()) parts.push_back({{plain, text.size()}});
  return parts;
}

}  // namespace trireme::text
