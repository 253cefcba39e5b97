// ListWalk: runs all lists of a plan against each other, as ranks do. The validator walks without a clock, the simulator
// with one.
#pragma once

#include <deque>
#include <span>
#include <vector>

#include "trireme/plan/check/meeting.h"
#include "trireme/plan/plan.h"

namespace trireme::plan {

// Receives the events of a walk. A line has begun before it runs or meets; its `after` has ended before it begins.
class LineClock {
 public:
  // One walker's line in a meeting: the head of one of its queues.
  struct Side {
    int walker = 0;
    int line = 0;
    std::size_t queue = 0;  // index among the walker's queues, the same for the whole walk
  };
  virtual ~LineClock() = default;
  virtual void begin(int walker, int line) = 0;
  // The line needs no other walker, and its list continues after it.
  virtual void run(int walker, int line) = 0;
  // All sides end together; walkers ascend.
  virtual void meet(std::span<const Side> sides) = 0;
};

// The walker of each rank. If the ranks of every stage share a list, they are interchangeable. A complete walk with one
// representative a stage implies one with all ranks, in which the ranks of a stage move together. Where lists of some
// stage differ, every rank walks.
std::vector<int> walkers_of(const PlanSet& plan);

// How many lines of a lane of collectives may have begun and not ended. More can only help; transfers have no limit.
enum class LaneRoom { kOneLine, kAnyLines };

// A list stops at a line whose `after` has not ended, or whose lane is full. It also stops while a node with an
// exchange waits for other ranks in the compute lane. Transfers wait in their queues, so a rank may send before others
// ask for the data. Queues run in order, so every order of steps ends the same lines and one walk decides.
class ListWalk {
 public:
  struct Waiting {
    Queue queue;
    std::deque<int> lines{};
  };
  struct Walker {
    int rank = 0;  // the first of the ranks that it represents
    int stage = 0;
    const List* list = nullptr;
    int next = 0;               // the next line to start
    std::vector<bool> ended{};  // by line
    std::vector<Waiting> waiting{};

    const Instr& line(int index) const { return (*list)[index]; }
    int head(const Queue& queue) const;  // -1: nothing waits there
    std::size_t place(const Queue& queue);
    bool done() const;
  };

  // `clock` may be null. Walkers are those of walkers_of().
  ListWalk(const PlanSet& plan, LaneRoom room, LineClock* clock);

  // Whether all lists run to their ends.
  bool run();

  const std::vector<Walker>& walkers() const { return walkers_; }
  const Walker& peer_of(const Walker& walker, int stage) const;

 private:
  Walker& at(int walker) { return walkers_[walker]; }
  // Begins the walker's next line if it can, and ends what has met; wakes those whose lines end with it.
  bool advance(int index);
  // Ends the first line of a walker's queue for all participants, if it is now the first for each of them.
  bool meet(int index, std::size_t place);

  const PlanSet& plan_;
  LaneRoom room_;
  LineClock* clock_;
  std::vector<int> walker_of_rank_;
  Meetings meetings_;
  std::vector<Walker> walkers_;
  std::vector<int> awake_;
  std::vector<LineClock::Side> sides_;
};

}  // namespace trireme::plan
