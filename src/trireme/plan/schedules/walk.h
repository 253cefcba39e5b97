// A walk over a grid in an order in which it can run: what an action needs comes before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

class Walk {
 public:
  explicit Walk(const Grid& grid)
      : grid_(grid),
        stages_(grid.ranks() * grid.chunks),
        place_(grid.rows.size()),
        done_(static_cast<std::size_t>(stages_) * static_cast<std::size_t>(grid.micro_batches)) {}

  // visit(rank, place, action, stage), once for every action that can ever run.
  template <typename Visit>
  void run(Visit visit) {
    std::vector<int> ready(grid_.rows.size());
    for (std::size_t rank = 0; rank < ready.size(); ++rank) ready[rank] = static_cast<int>(rank);
    while (!ready.empty()) {
      const int rank = ready.back();
      ready.pop_back();
      const Row& row = grid_.rows[rank];
      std::size_t& place = place_[rank];
      for (; place < row.size(); ++place) {
        const Action action = row[place];
        const int stage = stage_of(grid_.placement, grid_.ranks(), rank, action.chunk);
        if (needed(action, stage)) break;
        done(action.mb, stage) |= bits(action.work);
        visit(rank, place, action, stage);
        const int next = action.work == Work::kForward ? stage + 1 : stage - 1;
        if (action.work == Work::kBackwardWeight || next < 0 || next == stages_) continue;
        const int peer = rank_of(grid_.placement, grid_.ranks(), next);
        if (peer != rank) ready.push_back(peer);
      }
    }
  }

  std::size_t place(int rank) const { return place_[rank]; }

  // The first rank whose row did not end.
  std::optional<int> stuck() const {
    for (std::size_t rank = 0; rank < grid_.rows.size(); ++rank)
      if (place_[rank] < grid_.rows[rank].size()) return static_cast<int>(rank);
    return std::nullopt;
  }

  // The action that a stuck rank waits for: "1F0 of rank 1".
  std::string missing(int rank) const {
    const Action action = grid_.rows[rank][place(rank)];
    const int stage = stage_of(grid_.placement, grid_.ranks(), rank, action.chunk);
    const Needed what = *needed(action, stage);
    return std::to_string(what.stage) + letter(what.work) + std::to_string(action.mb) +
           " of rank " + std::to_string(rank_of(grid_.placement, grid_.ranks(), what.stage));
  }

 private:
  struct Needed {
    Work work;
    int stage;
  };

  static std::uint8_t bits(Work work) {
    switch (work) {
      case Work::kForward: return 1;
      case Work::kBackwardInput: return 2;
      case Work::kBackwardWeight: return 4;
      default: return 6;
    }
  }
  std::uint8_t& done(int mb, int stage) {
    return done_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(grid_.micro_batches) +
                 static_cast<std::size_t>(mb)];
  }
  bool is_done(Work work, int mb, int stage) const {
    return const_cast<Walk*>(this)->done(mb, stage) & bits(work);
  }

  // The first thing that is not there yet.
  std::optional<Needed> needed(Action action, int stage) const {
    if (action.work == Work::kForward) {
      if (stage == 0 || is_done(Work::kForward, action.mb, stage - 1)) return std::nullopt;
      return Needed{Work::kForward, stage - 1};
    }
    if (action.work == Work::kBackwardWeight) {
      if (is_done(Work::kBackwardInput, action.mb, stage)) return std::nullopt;
      return Needed{Work::kBackwardInput, stage};
    }
    if (!is_done(Work::kForward, action.mb, stage)) return Needed{Work::kForward, stage};
    if (stage == stages_ - 1 || is_done(Work::kBackwardInput, action.mb, stage + 1))
      return std::nullopt;
    return Needed{Work::kBackwardInput, stage + 1};
  }

  const Grid& grid_;
  int stages_;
  std::vector<std::size_t> place_;
  std::vector<std::uint8_t> done_;
};

}  // namespace trireme::schedules
