// How closed forms share blocks out to stages.
#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/planner/search/screen.h"

namespace trireme::planner {
namespace {

// Blocks of every stage under the least time of the slowest; earlier stages, which keep more, have fewer.
std::vector<double> blocks_of_stages(const Parts& parts, int stages) {
  if (stages == 1) return {parts.layers};
  const double block = parts.block.flops, embed = parts.embed.flops, head = parts.head.flops;
  const auto room = [&](double time, int stage) {
    const double own = stage == 0 ? embed : stage == stages - 1 ? head : 0;
    return std::floor((time - own) / block + 1e-9);
  };
  double best = 0;
  for (const double more : {0.0, embed, head})
    for (double count = 0; count <= parts.layers; ++count) {
      const double time = count * block + more;
      const double all = room(time, 0) + room(time, stages - 1) + (stages - 2) * room(time, 1);
      const bool fits = room(time, 0) >= 0 && room(time, stages - 1) >= 0 &&
                        (stages == 2 || room(time, 1) >= 1) && all >= parts.layers;
      if (!fits) continue;
      if (best == 0 || time < best) best = time;
      break;
    }
  std::vector<double> blocks;
  double spare = -parts.layers;
  for (int stage = 0; stage < stages; ++stage) {
    blocks.push_back(std::max(room(1.01 * best, stage), 0.0));
    spare += blocks.back();
  }
  for (bool moved = true; spare > 0 && std::exchange(moved, false);)
    for (int stage = 0; stage < stages && spare > 0; ++stage) {
      const bool ends = stage == 0 || stage == stages - 1;
      if (blocks[stage] <= (ends ? 0 : 1)) continue;
      --blocks[stage];
      --spare;
      moved = true;
    }
  return blocks;
}

}  // namespace

const Cut& cut_of(const Parts& parts, const Layout& layout) {
  const bool v = schedules::placement_of(layout.schedule) == schedules::Placement::kV;
  const auto [at, absent] = parts.cuts.try_emplace({layout.pp, layout.chunks, v});
  if (!absent) return at->second;
  const auto placement = v ? schedules::Placement::kV : schedules::Placement::kLoop;
  std::vector<double> ranks(static_cast<std::size_t>(layout.pp));
  const std::vector<double> blocks = blocks_of_stages(parts, layout.pp * layout.chunks);
  for (std::size_t stage = 0; stage < blocks.size(); ++stage)
    ranks[schedules::rank_of(placement, layout.pp, static_cast<int>(stage))] += blocks[stage];
  Cut& cut = at->second;
  cut.together = v || layout.pp == 1;
  cut.first = ranks.front();
  cut.last = cut.together ? ranks.front() : ranks.back();
  cut.most = *std::ranges::max_element(ranks);
  return cut;
}

}  // namespace trireme::planner
