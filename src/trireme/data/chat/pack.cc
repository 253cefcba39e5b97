#include "trireme/data/chat/pack.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::chat {
namespace {

struct LongDocuments {
  std::int64_t count = 0, longest = 0;
};

LongDocuments longer_than(const text::TokenFile& tokens, std::int64_t seq_len) {
  LongDocuments found;
  for (std::int64_t k = 0; k < tokens.documents(); ++k) {
    const std::int64_t places = tokens.document(k).count - 1;
    if (places > seq_len) ++found.count;
    found.longest = std::max(found.longest, places);
  }
  return found;
}

// Best fit of the longest first: a sample joins the fullest row that has space for it, the earlier of two. Samples of
// equal length keep their order. Lengths are 1 .. capacity. O(n log n).
std::vector<std::vector<std::int64_t>> best_fit_rows(std::span<const std::int64_t> lengths,
                                                     std::int64_t capacity) {
  std::vector<std::int64_t> longest(lengths.size());
  std::iota(longest.begin(), longest.end(), 0);
  const auto length = [&](std::int64_t index) { return lengths[index]; };
  std::ranges::stable_sort(longest, std::greater(), length);
  std::vector<std::vector<std::int64_t>> rows;
  std::set<std::pair<std::int64_t, std::size_t>> left;  // space of each row that has some
  for (const std::int64_t index : longest) {
    auto best = left.lower_bound({length(index), 0});
    if (best == left.end()) best = left.emplace(capacity, rows.size()).first, rows.emplace_back();
    const auto [space, row] = *best;
    rows[row].push_back(index);
    left.erase(best);
    if (space > length(index)) left.emplace(space - length(index), row);
  }
  return rows;
}

}  // namespace

std::vector<std::vector<PackedPiece>> packed_documents(const text::TokenFile& tokens,
                                                       std::int64_t seq_len,
                                                       config::Chat::Long longer,
                                                       std::string_view ways) {
  using Long = config::Chat::Long;
  if (const LongDocuments found = longer_than(tokens, seq_len);
      found.count > 0 && longer == Long::kRefuse)
    fail(ErrorKind::kData,
         "model.seq_len={}: {} of {} conversations are longer, up to {} tokens. Raise "
         "model.seq_len, or add {} to data.chat",
         seq_len, found.count, tokens.documents(), found.longest, ways);
  std::vector<PackedPiece> pieces;
  for (std::int64_t k = 0; k < tokens.documents(); ++k) {
    const std::int64_t places = tokens.document(k).count - 1;
    for (std::int64_t first = 0; first < places; first += seq_len) {
      pieces.push_back({k, first, std::min(seq_len, places - first)});
      if (longer != Long::kSplit) break;
    }
  }
  std::vector<std::int64_t> lengths;
  for (const PackedPiece& piece : pieces) lengths.push_back(piece.count);
  std::vector<std::vector<PackedPiece>> rows;
  for (const std::vector<std::int64_t>& packed : best_fit_rows(lengths, seq_len)) {
    rows.emplace_back();
    for (const std::int64_t index : packed) rows.back().push_back(pieces[index]);
  }
  return rows;
}

std::vector<std::vector<PackedPiece>> packed_comparisons(const text::TokenFile& tokens,
                                                         std::int64_t seq_len,
                                                         config::Chat::Long longer) {
  std::vector<PackedPiece> pieces;
  std::vector<std::int64_t> lengths;
  std::int64_t too_long = 0, longest = 0;
  for (std::int64_t k = 0; k + 1 < tokens.documents(); k += 2) {
    PackedPiece first{k, 0, tokens.document(k).count - 1},
        second{k + 1, 0, tokens.document(k + 1).count - 1};
    if (first.count + second.count > seq_len) {
      ++too_long;
      longest = std::max(longest, first.count + second.count);
      const std::int64_t half = seq_len / 2;  // and what the shorter one leaves of its own
      first.count = std::min(first.count, std::max(half, seq_len - second.count));
      second.count = std::min(second.count, seq_len - first.count);
    }
    pieces.insert(pieces.end(), {first, second});
    lengths.push_back(first.count + second.count);
  }
  if (too_long > 0 && longer == config::Chat::Long::kRefuse)
    fail(ErrorKind::kData,
         "model.seq_len={}: {} of {} comparisons are longer with both conversations, up to {} "
         "tokens. Raise model.seq_len, or add long=cut to data.chat",
         seq_len, too_long, tokens.documents() / 2, longest);
  std::vector<std::vector<PackedPiece>> rows;
  for (const std::vector<std::int64_t>& packed : best_fit_rows(lengths, seq_len)) {
    rows.emplace_back();
    for (const std::int64_t index : packed)
      rows.back().insert(rows.back().end(), {pieces[2 * index], pieces[2 * index + 1]});
  }
  return rows;
}

std::vector<std::vector<PackedPiece>> packed_samples(config::Compares compares,
                                                     const text::TokenFile& tokens,
                                                     std::int64_t seq_len,
                                                     config::Chat::Long longer) {
  return documents_of(compares) == 1 ? packed_documents(tokens, seq_len, longer, "long=cut")
                                     : packed_comparisons(tokens, seq_len, longer);
}

}  // namespace trireme::chat
