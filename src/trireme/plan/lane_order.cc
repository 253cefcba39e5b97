#include "trireme/plan/lane_order.h"

#include <algorithm>

namespace trireme::plan {

void LaneOrder::merge(Clock& into, const Clock& other) {
  for (std::size_t lane = 0; lane < into.size(); ++lane)
    into[lane] = std::max(into[lane], other[lane]);
}

LaneOrder::Clock LaneOrder::completion(int line) const {
  Clock clock = starts_[line];
  clock[static_cast<std::size_t>(lanes_[line])] = line;
  return clock;
}

void LaneOrder::push(Lane lane, const std::vector<int>& after) {
  const auto index = static_cast<std::size_t>(lane);
  Clock start = latest_[index] < 0 ? kNone : completion(latest_[index]);
  for (int line : after) merge(start, completion(line));
  latest_[index] = static_cast<int>(starts_.size());
  lanes_.push_back(lane);
  starts_.push_back(start);
}

std::vector<int> LaneOrder::needed(Lane lane, std::vector<int> lines) const {
  const auto index = static_cast<std::size_t>(lane);
  Clock known = latest_[index] < 0 ? kNone : completion(latest_[index]);
  // From the last: a later line may imply an earlier one, never the reverse.
  std::ranges::sort(lines, std::greater());
  std::vector<int> result;
  for (int line : lines) {
    if (known[static_cast<std::size_t>(lanes_[line])] >= line) continue;
    merge(known, completion(line));
    result.push_back(line);
  }
  std::ranges::reverse(result);
  return result;
}

bool LaneOrder::before(int earlier, int later) const {
  return starts_[later][static_cast<std::size_t>(lanes_[earlier])] >= earlier;
}

}  // namespace trireme::plan
