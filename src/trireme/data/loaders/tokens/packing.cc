#include "trireme/data/loaders/tokens/packing.h"

#include <algorithm>

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

}  // namespace trireme::loaders
