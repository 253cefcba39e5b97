#include "trireme/data/packing.h"

#include <algorithm>

#include "trireme/data/sample_order.h"

namespace trireme::data {

std::vector<PackedRow> pack_rows(std::span<const std::int64_t> lengths, std::int64_t room,
                                 std::uint64_t seed) {
  std::vector<PackedRow> rows;
  if (lengths.empty()) return rows;
  constexpr std::size_t kOpen = 64;  // rows that still take samples
  std::vector<std::int64_t> left;    // of each row
  const SampleOrder order(std::ssize(lengths), seed);
  for (std::int64_t place = 0; place < std::ssize(lengths); ++place) {
    const std::int64_t sample = order.at(place).sample;
    const std::int64_t length = lengths[static_cast<std::size_t>(sample)];
    if (length <= 0 || length > room) continue;
    std::size_t best = rows.size();
    for (std::size_t row = rows.size() - std::min(rows.size(), kOpen); row < rows.size(); ++row)
      if (left[row] >= length && (best == rows.size() || left[row] < left[best])) best = row;
    if (best == rows.size()) {
      rows.emplace_back();
      left.push_back(room);
    }
    rows[best].push_back(sample);
    left[best] -= length;
  }
  return rows;
}

}  // namespace trireme::data
