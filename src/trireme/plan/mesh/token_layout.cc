#include "trireme/plan/mesh/token_layout.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::mesh {
namespace {

struct Held {
  Share range;
  int rank;
};

// Ranges of ranks first .. first + count - 1 by position.
std::vector<Held> held(const TokenLayout& layout, int first, int count) {
  std::vector<Held> all;
  for (int rank = first; rank < first + count; ++rank)
    for (const Share& range : layout.ranges.at(static_cast<std::size_t>(rank)))
      all.push_back({range, rank});
  std::ranges::sort(all, {}, [](const Held& one) { return one.range.begin; });
  return all;
}

// Equal chunks, each held by `together` neighbours: by the first ones of even chunks in order, of odd ones in reverse.
TokenLayout of_holders(std::int64_t tokens, std::span<const int> holders, int ranks, int together) {
  TokenLayout layout{.tokens = tokens};
  layout.ranges.resize(static_cast<std::size_t>(ranks));
  const std::int64_t part = tokens / std::ssize(holders) / together;
  std::int64_t begin = 0;
  for (const int holder : holders) {
    const int first = holder * together;
    const bool odd = layout.ranges[first].size() % 2 == 1;
    for (int i = 0; i < together; ++i, begin += part)
      layout.ranges[odd ? first + together - 1 - i : first + i].push_back({begin, begin + part});
  }
  return layout;
}

// Of `chunks` equal chunks the holder of each, and the scores of the holder with the most.
struct Dealt {
  std::vector<int> holders;
  std::int64_t most = 0;
};
Dealt deal(std::span<const std::int64_t> sums, int holders, std::int64_t each) {
  const std::int64_t size = (std::ssize(sums) - 1) / (holders * each);
  std::vector<std::pair<std::int64_t, std::int64_t>> chunks;  // scores and index
  for (std::int64_t i = 0; i < holders * each; ++i)
    chunks.emplace_back(sums[(i + 1) * size] - sums[i * size], i);
  std::ranges::sort(chunks, std::greater());
  Dealt dealt{.holders = std::vector<int>(chunks.size())};
  std::vector<std::int64_t> loads(static_cast<std::size_t>(holders)), counts(loads.size());
  for (const auto& [scores, index] : chunks) {
    std::size_t least = loads.size();
    for (std::size_t h = 0; h < loads.size(); ++h)
      if (counts[h] < each && (least == loads.size() || loads[h] < loads[least])) least = h;
    dealt.holders[index] = static_cast<int>(least);
    loads[least] += scores;
    ++counts[least];
  }
  dealt.most = *std::ranges::max_element(loads);
  return dealt;
}

void check_splits(std::int64_t tokens, int ranks) {
  TRIREME_CHECK(tokens >= 0 && ranks >= 1, "{} tokens over {} ranks", tokens, ranks);
  const std::int64_t chunks = 2 * static_cast<std::int64_t>(ranks);
  if (ranks > 1 && tokens % chunks != 0)
    fail(ErrorKind::kUsage,
         "a sequence of {} tokens does not split over {} context-parallel ranks; it needs a "
         "multiple of 2 x {} = {}, "
         "such as {}, or another number of ranks",
         tokens, ranks, ranks, chunks, (tokens / chunks + 1) * chunks);
}

}  // namespace

std::int64_t TokenLayout::tokens_of(int rank) const {
  std::int64_t all = 0;
  for (const Share& range : ranges.at(static_cast<std::size_t>(rank))) all += range.count();
  return all;
}

std::vector<std::int64_t> TokenLayout::positions(int rank) const {
  std::vector<std::int64_t> all;
  for (const Share& range : ranges.at(static_cast<std::size_t>(rank)))
    for (std::int64_t position = range.begin; position < range.end; ++position)
      all.push_back(position);
  return all;
}

TokenLayout TokenLayout::joined(int count) const {
  if (count == 1) return *this;
  if (count == ranks()) return in_order(tokens, 1);
  TokenLayout layout{.tokens = tokens};
  const auto step = static_cast<std::size_t>(count);
  for (int first = 0; first < ranks(); first += count) {
    const std::vector<Held> all = held(*this, first, count);
    std::vector<Share>& mine = layout.ranges.emplace_back();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Share& next = all[i].range;
      if (i % step == 0) mine.push_back({next.begin, next.begin});
      TRIREME_CHECK(mine.back().end == next.begin, "{} neighbours do not share a chunk", count);
      mine.back().end = next.end;
    }
  }
  return layout;
}

TokenLayout TokenLayout::among(int first, int count) const {
  TokenLayout layout;
  layout.ranges.resize(static_cast<std::size_t>(count));
  for (const auto& [range, rank] : held(*this, first, count)) {
    const std::int64_t begin = layout.tokens;
    layout.tokens += range.count();
    layout.ranges[rank - first].push_back({begin, layout.tokens});
  }
  return layout;
}

TokenLayout in_order(std::int64_t tokens, int ranks) {
  TokenLayout layout{.tokens = tokens};
  for (int rank = 0; rank < ranks; ++rank) layout.ranges.push_back({share(tokens, rank, ranks)});
  return layout;
}

TokenLayout zigzag(std::int64_t tokens, int ranks) {
  check_splits(tokens, ranks);
  if (ranks == 1) return in_order(tokens, 1);
  std::vector<int> holders(2 * static_cast<std::size_t>(ranks));
  std::iota(holders.begin(), holders.begin() + ranks, 0);
  std::iota(holders.rbegin(), holders.rbegin() + ranks, 0);
  return of_holders(tokens, holders, ranks, 1);
}

BalancedLayout balanced(std::span<const std::int64_t> scores, int ranks, int together) {
  const std::int64_t tokens = std::ssize(scores), own = tokens / ranks;
  check_splits(tokens, ranks);
  if (ranks == 1) return {.layout = in_order(tokens, 1)};
  std::vector<std::int64_t> sums(scores.size() + 1);
  std::partial_sum(scores.begin(), scores.end(), sums.begin() + 1);
  const int holders = ranks / together;
  const double mean = static_cast<double>(sums.back()) / holders;
  Dealt best = deal(sums, holders, 2);
  for (std::int64_t each = 3; each * kFewestTokens <= own; ++each) {
    if (static_cast<double>(best.most) <= kEven * mean) break;
    if (own % each != 0) continue;
    Dealt finer = deal(sums, holders, each);
    if (finer.most < best.most) best = std::move(finer);
  }
  return {.layout = of_holders(tokens, best.holders, ranks, together),
          .imbalance = static_cast<double>(best.most) / mean};
}

}  // namespace trireme::mesh
