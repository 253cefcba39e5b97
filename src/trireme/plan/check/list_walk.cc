#include "trireme/plan/check/list_walk.h"

#include <algorithm>

namespace trireme::plan {

using mesh::Axis;

std::vector<int> walkers_of(const PlanSet& plan) {
  const auto world = static_cast<int>(plan.list_of_rank.size());
  const auto first = [&](int rank) {  // of its stage
    mesh::Coordinates at;
    at.at(Axis::kPp) = plan.mesh.coordinate(rank, Axis::kPp);
    return plan.mesh.rank(at);
  };
  bool alike = true;
  for (int rank = 0; rank < world && alike; ++rank)
    alike = &plan.list(rank) == &plan.list(first(rank));
  std::vector<int> walkers(plan.list_of_rank.size(), -1);
  int count = 0;
  for (int rank = 0; rank < world; ++rank) {
    int& walker = walkers[rank];
    if (alike) walker = walkers[first(rank)];
    if (walker < 0) walker = count++;
  }
  return walkers;
}

int ListWalk::Walker::head(const Queue& queue) const {
  for (const Waiting& one : waiting)
    if (one.queue == queue) return one.lines.empty() ? -1 : one.lines.front();
  return -1;
}

std::size_t ListWalk::Walker::place(const Queue& queue) {
  for (std::size_t i = 0; i < waiting.size(); ++i)
    if (waiting[i].queue == queue) return i;
  waiting.push_back({.queue = queue});
  return waiting.size() - 1;
}

bool ListWalk::Walker::done() const {
  return next == static_cast<int>(list->size()) &&
         std::ranges::all_of(waiting, [](const Waiting& one) { return one.lines.empty(); });
}

ListWalk::ListWalk(const PlanSet& plan, LaneRoom room, LineClock* clock)
    : plan_(plan),
      room_(room),
      clock_(clock),
      walker_of_rank_(walkers_of(plan)),
      meetings_(plan, walker_of_rank_) {
  const int walkers = 1 + *std::ranges::max_element(walker_of_rank_);
  for (int walker = 0; walker < walkers; ++walker) {
    const int rank = meetings_.rank_of(walker);
    walkers_.push_back({.rank = rank,
                        .stage = plan.mesh.coordinate(rank, Axis::kPp),
                        .list = &plan.list(rank),
                        .ended = std::vector<bool>(plan.list(rank).size())});
  }
}

const ListWalk::Walker& ListWalk::peer_of(const Walker& walker, int stage) const {
  const int own = walker_of_rank_[walker.rank];
  return walkers_[meetings_.peer_of(own, stage)];
}

bool ListWalk::run() {
  for (int walker = static_cast<int>(walkers_.size()); walker-- > 0;) awake_.push_back(walker);
  while (!awake_.empty()) {
    const int walker = awake_.back();
    awake_.pop_back();
    // After what has just ended, the next line of a queue may have been waited for.
    for (std::size_t i = 0; i < at(walker).waiting.size(); ++i)
      while (meet(walker, i)) continue;
    while (advance(walker)) continue;
  }
  return std::ranges::all_of(walkers_, &Walker::done);
}

bool ListWalk::advance(int index) {
  Walker& walker = at(index);
  if (walker.next == static_cast<int>(walker.list->size())) return false;
  const Instr& line = walker.line(walker.next);
  for (int earlier : line.after)
    if (!walker.ended[earlier]) return false;
  if (walker.head({.lane = Lane::kComp}) >= 0) return false;  // its thread is in that line
  const Queue queue = queue_of(line);
  const bool alone = line.lane == Lane::kComp && (meeting_axes(plan_.program, line).empty() ||
                                                  meetings_.participants(index, line).size() == 1);
  const bool limited = room_ == LaneRoom::kOneLine && !alone && !is_transfer(line);
  if (limited && walker.head(queue) >= 0) return false;
  if (clock_ != nullptr) clock_->begin(index, walker.next);
  if (alone) {
    if (clock_ != nullptr) clock_->run(index, walker.next);
    walker.ended[walker.next++] = true;
    return true;
  }
  const std::size_t place = walker.place(queue);
  walker.waiting[place].lines.push_back(walker.next++);
  while (meet(index, place)) continue;
  return true;
}

bool ListWalk::meet(int index, std::size_t place) {
  const Walker& mine = at(index);
  const Waiting& own = mine.waiting[place];
  if (own.lines.empty()) return false;
  const Queue queue = own.queue;
  const Instr& line = mine.line(own.lines.front());
  sides_.clear();
  for (int other : meetings_.participants(index, line)) {
    Walker& walker = at(other);
    const std::size_t there = other == index ? place : walker.place(counterpart(queue, mine.stage));
    const std::deque<int>& lines = walker.waiting[there].lines;
    if (lines.empty()) return false;
    if (other != index && !meets(line, mine.stage, walker.line(lines.front()), walker.stage))
      return false;
    sides_.push_back({.walker = other, .line = lines.front(), .queue = there});
  }
  if (clock_ != nullptr) clock_->meet(sides_);
  for (const LineClock::Side& side : sides_) {
    Walker& walker = at(side.walker);
    walker.waiting[side.queue].lines.pop_front();
    walker.ended[side.line] = true;
    if (side.walker != index) awake_.push_back(side.walker);
  }
  return true;
}

}  // namespace trireme::plan
