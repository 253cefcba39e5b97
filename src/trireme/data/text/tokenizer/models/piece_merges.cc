#include "trireme/data/text/tokenizer/models/piece_merges.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/text/tokenizer/utf8.h"

namespace trireme::text {
namespace {

constexpr std::int32_t kFrozen = -2;  // id of a user-defined symbol before its text is looked up

}  // namespace

// Where an unused piece was merged: [begin, end), from two symbols that meet at `middle`.
struct PieceMerges::Split {
  std::string_view text;
  std::size_t left_size = 0;
};

PieceMerges::PieceMerges(std::vector<MergedPiece> pieces, std::int32_t unknown,
                         std::vector<std::int32_t> byte_ids)
    : pieces_(std::move(pieces)),
      ranks_(pieces_.size()),
      unknown_(unknown),
      byte_ids_(std::move(byte_ids)) {
  std::vector<std::int32_t> order(pieces_.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int32_t id) { return pieces_[id].score; };
  std::ranges::stable_sort(order, std::greater<>(), score);
  std::vector<std::pair<std::string_view, std::int32_t>> user_defined;
  std::int32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
    ranks_[order[i]] = rank;
  }
  for (std::size_t id = 0; id < pieces_.size(); ++id) {
    const MergedPiece& piece = pieces_[id];
    if (!piece.matched) continue;
    ids_.emplace(piece.text, static_cast<std::int32_t>(id));
    longest_ = std::max(longest_, piece.text.size());
    if (piece.user_defined) user_defined.emplace_back(piece.text, static_cast<std::int32_t>(id));
  }
  user_defined_ = Trie(std::move(user_defined));
}

std::int32_t PieceMerges::piece_of(std::string_view text) const {
  if (text.size() > longest_) return -1;
  const auto found = ids_.find(text);
  return found == ids_.end() ? -1 : found->second;
}

void PieceMerges::encode(std::string_view word, std::vector<WordToken>& out) const {
  if (word.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    fail(ErrorKind::kData, "{} bytes of one document are too long to encode", word.size());
  std::vector<Symbol> symbols;
  symbols.reserve(word.size());
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t fixed = user_defined_.longest(word.substr(at)).size;
    const std::size_t size = fixed > 0 ? fixed : character_at(word, at).size;
    append_symbol(symbols, fixed > 0 ? kFrozen : -1, at, size);
    at += size;
  }
  std::vector<Split> splits;
  merge_symbols(symbols, [&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    if (left.id == kFrozen || right.id == kFrozen) return std::nullopt;
    const std::string_view text = word.substr(left.begin, left.size + right.size);
    const std::int32_t id = piece_of(text);
    if (id < 0) return std::nullopt;
    if (pieces_[id].unused) splits.push_back({text, left.size});
    return Merge{.rank = ranks_[id], .result = id};
  });
  // The last split of a text counts.
  std::ranges::reverse(splits);
  std::ranges::stable_sort(splits, {}, &Split::text);
  const std::size_t first = out.size();
  std::vector<WordToken> found;
  for (const Symbol& symbol : symbols)
    if (symbol.size > 0) emit(word, {0, symbol.begin, symbol.begin + symbol.size}, splits, found);
  for (const WordToken& token : found) {
    const bool unknown = token.id == unknown_;
    if (unknown && !byte_ids_.empty()) {
      for (std::uint32_t at = token.begin; at < token.end; ++at)
        out.push_back({byte_ids_[static_cast<unsigned char>(word[at])], at, at + 1});
    } else if (unknown && out.size() > first && out.back().id == unknown_) {
      out.back().end = token.end;
    } else {
      out.push_back(token);
    }
  }
}

// A symbol as its piece, or as those that it was merged from if the piece is unused.
void PieceMerges::emit(std::string_view word, const WordToken& symbol,
                       const std::vector<Split>& splits, std::vector<WordToken>& out) const {
  const std::string_view text = word.substr(symbol.begin, symbol.end - symbol.begin);
  const std::int32_t id = piece_of(text);
  if (id >= 0 && pieces_[id].unused) {
    const auto split = std::ranges::lower_bound(splits, text, {}, &Split::text);
    if (split != splits.end() && split->text == text) {
      const auto middle = symbol.begin + static_cast<std::uint32_t>(split->left_size);
      emit(word, {0, symbol.begin, middle}, splits, out);
      emit(word, {0, middle, symbol.end}, splits, out);
      return;
    }
  }
  out.push_back({id < 0 ? unknown_ : id, symbol.begin, symbol.end});
}

Model::Rules PieceMerges::rules() const {
  Rules rules{.before = "sentencepiece bpe\n",
              .after = fmt::format("{} {} ", unknown_, !byte_ids_.empty())};
  for (const MergedPiece& piece : pieces_)
    rules.after +=
        fmt::format("{} {}{}{} ", piece.score, piece.matched, piece.user_defined, piece.unused);
  return rules;
}

}  // namespace trireme::text
