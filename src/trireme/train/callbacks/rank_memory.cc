#include "trireme/train/callbacks/rank_memory.h"

#include <algorithm>

namespace trireme::train {

std::vector<RankMemory> shown_ranks(const RunInfo& info, const RunEnd& end, std::size_t most) {
  std::vector<RankMemory> ranks;
  const std::size_t world = std::min(info.predicted_bytes.size(), end.measured_bytes.size());
  for (std::size_t rank = 0; rank < world; ++rank)
    if (info.predicted_bytes[rank] > 0 && end.measured_bytes[rank] > 0)
      ranks.push_back({.rank = static_cast<int>(rank),
                       .predicted = info.predicted_bytes[rank],
                       .measured = end.measured_bytes[rank]});
  std::ranges::stable_sort(ranks, std::ranges::greater(), &RankMemory::ratio);
  if (ranks.size() > most) ranks.resize(most);
  std::ranges::sort(ranks, {}, &RankMemory::rank);
  return ranks;
}

}  // namespace trireme::train
