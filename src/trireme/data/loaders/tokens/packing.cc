#include "trireme/data/loaders/tokens/packing.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "trireme/data/loaders/sample_order.h"

namespace trireme::loaders {

namespace {

bool fits(const Outline& sample, const Outline& room) {
  return sample.tokens <= room.tokens && sample.tiles <= room.tiles;
}

}  // namespace

std::vector<PackedRow> pack_rows(std::span<const Outline> samples, Outline room,
                                 std::uint64_t seed) {
  std::vector<PackedRow> rows;
  if (samples.empty()) return rows;
  constexpr std::size_t kOpen = 64;  // rows that still take samples
  std::vector<Outline> left;         // of each row
  const SampleOrder order(std::ssize(samples), seed);
  for (std::int64_t place = 0; place < std::ssize(samples); ++place) {
    const std::int64_t index = order.at(place).sample;
    const Outline& sample = samples[index];
    if (sample.tokens <= 0 || !fits(sample, room)) continue;
    std::size_t best = rows.size();
    for (std::size_t row = rows.size() - std::min(rows.size(), kOpen); row < rows.size(); ++row)
      if (fits(sample, left[row]) && (best == rows.size() || left[row].tokens < left[best].tokens))
        best = row;
    if (best == rows.size()) {
      rows.emplace_back();
      left.push_back(room);
    }
    rows[best].push_back(index);
    left[best].tokens -= sample.tokens;
    left[best].tiles -= sample.tiles;
  }
  return rows;
}

std::vector<PackedRow> best_fit_rows(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  std::vector<std::int64_t> longest(lengths.size());
  std::iota(longest.begin(), longest.end(), 0);
  const auto length = [&](std::int64_t index) { return lengths[index]; };
  std::ranges::stable_sort(longest, std::greater(), length);
  std::vector<PackedRow> rows;
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

}  // namespace trireme::loaders
