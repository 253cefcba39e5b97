#include "trireme/plan/compile/lane_order.h"

#include <algorithm>

namespace trireme::plan {

void LaneOrder::merge(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size(), -1);
  for (std::size_t queue = 0; queue < other.size(); ++queue)
    into[queue] = std::max(into[queue], other[queue]);
}

void LaneOrder::raise(Clock& clock, std::size_t queue, int line) {
  if (clock.size() <= queue) clock.resize(queue + 1, -1);
  clock[queue] = std::max(clock[queue], line);
}

std::size_t LaneOrder::index(const Queue& queue) {
  const auto found = std::ranges::find(queues_, queue);
  if (found == queues_.end()) {
    queues_.push_back(queue);
    latest_.push_back(-1);
    return queues_.size() - 1;
  }
  return static_cast<std::size_t>(found - queues_.begin());
}

void LaneOrder::complete(Clock& clock, int line) const {
  const auto i = static_cast<std::size_t>(line);
  merge(clock, starts_[i]);
  raise(clock, queue_of_[i], line);
}

LaneOrder::Clock LaneOrder::start_of(std::size_t queue) const {
  Clock clock;
  if (latest_[queue] >= 0) complete(clock, latest_[queue]);
  return clock;
}

void LaneOrder::push(const Queue& queue, const std::vector<int>& after) {
  const std::size_t at = index(queue);
  Clock start = start_of(at);
  for (int line : after) complete(start, line);
  latest_[at] = static_cast<int>(starts_.size());
  queue_of_.push_back(at);
  starts_.push_back(std::move(start));
}

std::vector<int> LaneOrder::needed(const Queue& queue, std::vector<int> lines) {
  Clock known = start_of(index(queue));
  // From the last: a later line may imply an earlier one, never the reverse.
  std::ranges::sort(lines, std::greater());
  std::vector<int> result;
  for (int line : lines) {
    if (at(known, queue_of_[line]) >= line) continue;
    complete(known, line);
    result.push_back(line);
  }
  std::ranges::reverse(result);
  return result;
}

bool LaneOrder::before(int earlier, int later) const {
  return at(starts_[later], queue_of_[earlier]) >= earlier;
}

}  // namespace trireme::plan
