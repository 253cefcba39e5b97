#include "trireme/data/text/tokenizer/models/bpe.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/byte_level.h"
#include "trireme/data/text/tokenizer/models/models.h"
#include "trireme/data/text/tokenizer/utf8.h"
#include "trireme/formats/shown.h"

namespace trireme::text {
namespace {

constexpr std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

std::pair<std::string, std::string> read_merge(const Json& merge, const std::string& where) {
  if (merge.is_string()) {
    const std::string text = merge.get<std::string>();
    const std::size_t space = text.find(' ');
    if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
      fail(ErrorKind::kData, "{}: {} is not two entries with a space between", where,
           formats::shown(text));
    return {text.substr(0, space), text.substr(space + 1)};
  }
  if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
    fail(ErrorKind::kData, "{}: is neither \"a b\" nor [\"a\", \"b\"]", where);
  return {merge[0].get<std::string>(), merge[1].get<std::string>()};
}

}  // namespace

Bpe::Bpe(const formats::JsonFields& fields, TokenIds ids, bool byte_level)
    : byte_level_(byte_level), ids_(std::move(ids)) {
  fields.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
               "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (fields.has("dropout") && !fields.any("dropout").is_null() && fields.any("dropout") != 0.0)
    fail(ErrorKind::kData, "{}: dropout {} is not supported; set it to null in the file",
         fields.where(), fields.any("dropout").dump());
  ignore_merges_ = fields.has("ignore_merges") && fields.boolean("ignore_merges");
  fuse_unknown_ = fields.has("fuse_unk") && fields.boolean("fuse_unk");
  prefix_ = text_or_empty(fields, "continuing_subword_prefix");
  suffix_ = text_or_empty(fields, "end_of_word_suffix");
  for (int byte = 0; byte_level && byte < 256; ++byte)
    if (id_of(std::string(1, static_cast<char>(byte))) < 0)
      fail(ErrorKind::kData, "{}: byte {} has no token, so some text could not be encoded",
           fields.where(), byte);
  const bool falls_back = fields.has("byte_fallback") && fields.boolean("byte_fallback");
  const std::string unknown = text_or_empty(fields, "unk_token");
  // Bytes are never unknown.
  if (!byte_level && falls_back) byte_ids_ = byte_tokens(ids_);
  if (!byte_level && !unknown.empty()) unknown_ = need_token(ids_, unknown, fields);
  read_merges(fields);
}

std::int32_t Bpe::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

void Bpe::read_merges(const formats::JsonFields& fields) {
  std::int32_t rank = 0;
  for (const Json& merge : fields.array("merges")) {
    const std::string where = fmt::format("{}: merge {}", fields.where(), rank);
    auto [left, right] = read_merge(merge, where);
    if (byte_level_) {
      left = bytes_of_entry(left, where);
      right = bytes_of_entry(right, where);
    }
    const auto need = [&](const std::string& text) {
      const std::int32_t id = id_of(text);
      if (id < 0)
        fail(ErrorKind::kData, "{}: {} is not in the vocabulary", where, formats::shown(text));
      return id;
    };
    const std::string joined =
        left + (right.starts_with(prefix_) ? right.substr(prefix_.size()) : right);
    merges_.insert_or_assign(pair_key(need(left), need(right)),
                             Merge{.rank = rank, .result = need(joined)});
    ++rank;
  }
}

// Without a token: bytes, or the unknown token, which waits to be fused with the next one.
void Bpe::add_unknown(std::string_view character, std::size_t begin, std::optional<Symbol>& unknown,
                      std::vector<Symbol>& out) const {
  const bool spelled = !byte_ids_.empty() && std::ranges::all_of(character, [&](char byte) {
    return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
  });
  if (spelled) {
    for (std::size_t i = 0; i < character.size(); ++i)
      append_symbol(out, byte_ids_[static_cast<unsigned char>(character[i])], begin + i, 1);
    return;
  }
  if (unknown_ < 0)
    fail(ErrorKind::kData,
         "{} has no token, and the tokenizer has neither byte_fallback nor an unk_token",
         formats::shown(character));
  if (unknown && fuse_unknown_) {
    unknown->size += static_cast<std::uint32_t>(character.size());
    return;
  }
  if (unknown) append_symbol(out, unknown_, unknown->begin, unknown->size);
  unknown = Symbol{.begin = static_cast<std::uint32_t>(begin),
                   .size = static_cast<std::uint32_t>(character.size())};
}

std::vector<Symbol> Bpe::symbols_of(std::string_view word) const {
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  std::optional<Symbol> unknown;
  std::string affixed;
  for (std::size_t at = 0, size = 0; at < word.size(); at += size) {
    size = byte_level_ ? 1 : character_at(word, at).size;
    std::string_view text = word.substr(at, size);
    if (!prefix_.empty() || !suffix_.empty()) {
      affixed =
          (at > 0 ? prefix_ : "") + std::string(text) + (at + size == word.size() ? suffix_ : "");
      text = affixed;
    }
    const std::int32_t id = id_of(text);
    if (id < 0) {
      add_unknown(word.substr(at, size), at, unknown, symbols);
      continue;
    }
    if (unknown) append_symbol(symbols, unknown_, unknown->begin, unknown->size);
    unknown.reset();
    append_symbol(symbols, id, at, size);
  }
  if (unknown) append_symbol(symbols, unknown_, unknown->begin, unknown->size);
  return symbols;
}

void Bpe::encode(std::string_view word, std::vector<WordToken>& out) const {
  if (word.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    fail(ErrorKind::kData, "{} bytes without a break are too long to encode", word.size());
  if (ignore_merges_)
    if (const std::int32_t whole = id_of(word); whole >= 0) {
      out.push_back({whole, 0, static_cast<std::uint32_t>(word.size())});
      return;
    }
  std::vector<Symbol> symbols = symbols_of(word);
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const auto merge = merges_.find(pair_key(left.id, right.id));
    if (merge == merges_.end()) return std::nullopt;
    return merge->second;
  });
  for (const Symbol& symbol : symbols)
    if (symbol.size > 0) out.push_back({symbol.id, symbol.begin, symbol.begin + symbol.size});
}

Model::Rules Bpe::rules() const {
  std::vector<std::pair<Merge, std::uint64_t>> merges;
  for (const auto& [pair, merge] : merges_) merges.emplace_back(merge, pair);
  std::ranges::sort(merges, {}, [](const auto& merge) { return merge.first.rank; });
  Rules rules{.before = fmt::format("{}\n", ignore_merges_), .after = {}};
  for (const auto& [merge, pair] : merges) rules.after += fmt::format("{} {} ", pair, merge.result);
  // Vocabularies of earlier versions have none of these and keep their digest.
  if (unknown_ >= 0) rules.after += fmt::format("\nunknown {} {}", unknown_, fuse_unknown_);
  if (!byte_ids_.empty()) rules.after += "\nbyte_fallback";
  if (!byte_level_) rules.after += "\ncharacters";
  if (!prefix_.empty() || !suffix_.empty())
    rules.after += fmt::format("\naffixes {} {}", prefix_, suffix_);
  return rules;
}

}  // namespace trireme::text
