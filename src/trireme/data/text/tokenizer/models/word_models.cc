#include "trireme/data/text/tokenizer/models/word_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "trireme/data/text/tokenizer/models/models.h"
#include "trireme/data/text/tokenizer/utf8.h"

namespace trireme::text {

WordPiece::WordPiece(const formats::JsonFields& fields, TokenIds ids) : ids_(std::move(ids)) {
  fields.only(
      {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  unknown_ = need_token(ids_, fields.string("unk_token"), fields);
  prefix_ = fields.string("continuing_subword_prefix");
  most_characters_ = fields.integer("max_input_chars_per_word");
  for (const auto& [text, id] : ids_) longest_ = std::max(longest_, text.size());
}

void WordPiece::encode(std::string_view word, std::vector<WordToken>& out) const {
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  };
  const std::size_t before = out.size();
  bool known = std::ranges::count_if(word, begins_character) <= most_characters_;
  for (std::size_t at = 0; known && at < word.size();) {
    const std::string prefix = at > 0 ? prefix_ : std::string();
    std::string rest = prefix + std::string(word.substr(at, longest_));
    while (rest.size() > prefix.size() && !ids_.contains(rest)) rest.pop_back();
    known = rest.size() > prefix.size();
    if (!known) break;
    const std::size_t end = at + rest.size() - prefix.size();
    out.push_back(
        {ids_.find(rest)->second, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
    at = end;
  }
  if (known) return;
  out.resize(before);
  out.push_back({unknown_, 0, static_cast<std::uint32_t>(word.size())});
}

Model::Rules WordPiece::rules() const {
  return {.before = "wordpiece\n",
          .after = fmt::format("{} {} {}", unknown_, most_characters_, prefix_)};
}

WordLevel::WordLevel(const formats::JsonFields& fields, TokenIds ids) : ids_(std::move(ids)) {
  fields.only({"type", "unk_token", "vocab"});
  unknown_ = need_token(ids_, fields.string("unk_token"), fields);
}

void WordLevel::encode(std::string_view word, std::vector<WordToken>& out) const {
  const auto found = ids_.find(word);
  out.push_back(
      {found == ids_.end() ? unknown_ : found->second, 0, static_cast<std::uint32_t>(word.size())});
}

Model::Rules WordLevel::rules() const {
  return {.before = "wordlevel\n", .after = fmt::format("{}", unknown_)};
}

}  // namespace trireme::text
