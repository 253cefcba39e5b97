#include "trireme/plan/schedules/v_order.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

namespace trireme::schedules {
namespace {

using BlockTicks = std::array<int, 4>;  // F and F, I and I in the order of the V
constexpr std::array<std::pair<Work, int>, 4> kBlockActions = {{{Work::kForward, 0},
                                                                {Work::kForward, 1},
                                                                {Work::kBackwardInput, 1},
                                                                {Work::kBackwardInput, 0}}};

// Of micro-batch 0 on a rank.
BlockTicks block_ticks(const BuildingBlock& block, int ranks, int rank) {
  const auto down = [&](int to) {
    return block.early * std::min(to, block.turn) + block.late * std::max(to - block.turn, 0);
  };
  const int last = ranks - 1;
  const int forward_up = down(last) + 1 + block.gap[0];  // on the last rank
  const int input_down = forward_up + last + 1 + block.gap[1];
  const int input_up = input_down + down(last) + 1 + block.gap[2];
  return {down(rank), forward_up + last - rank, input_down + down(rank), input_up + last - rank};
}

bool ticks_collide(const BlockTicks& at, int period) {
  for (std::size_t i = 0; i < at.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if ((at[i] - at[k]) % period == 0) return true;
  return false;
}

// Chunks between F and I while the block repeats.
int ticks_hold(const BlockTicks& at, int period) {
  // Micro-batches of a chunk that are there at a tick after `at`'s last.
  const auto present = [&](int now, std::size_t forward, std::size_t input) {
    return (now - at[forward]) / period - (now - at[input]) / period;
  };
  int most = 0;
  for (const int forward : {at[0], at[1]}) {
    const int now = forward + (at[3] - forward + period) / period * period;
    most = std::max(most, present(now, 0, 3) + present(now, 1, 2));
  }
  return most;
}

// Nothing if two actions of a rank collide.
std::optional<int> block_holds(const BuildingBlock& block, int ranks) {
  int most = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const BlockTicks at = block_ticks(block, ranks, rank);
    if (ticks_collide(at, block.period)) return std::nullopt;
    most = std::max(most, ticks_hold(at, block.period));
  }
  return most;
}

// Micro-batches that each kind of action of a row has done.
class Progress {
 public:
  int& of(Work work, int chunk) { return (work == Work::kForward ? forward_ : input_)[chunk]; }
  bool in_order() const {
    return forward_[0] >= forward_[1] && forward_[1] >= input_[1] && input_[1] >= input_[0];
  }
  int held() const { return forward_[0] + forward_[1] - input_[0] - input_[1]; }

 private:
  std::array<int, 2> forward_{}, input_{};
};

bool row_fits(const Row& row, int limit) {
  Progress done;
  return std::ranges::all_of(row, [&](const Action& action) {
    ++done.of(action.work, action.chunk);
    return done.in_order() && done.held() <= limit;
  });
}

// Gradients at the end of the step move to the ticks that they would have if nothing else followed the last F up the V:
// down the V and up again, one every two ticks.
int drained(int tick, std::size_t action, int behind, int rank, int ranks, int last, int limit) {
  const int up = (limit + 1) / 2, down = std::min(rank + 1, limit - up);
  if (action == 3 && behind < up) return last - rank + 2 * ranks - 2 * behind;
  if (action == 2 && behind < down) return last + 1 + rank - 2 * behind;
  return tick;
}

// Before the first gradient of chunk 0: F down alone, F down and up in turn, then one gradient for each further F.
Row filled(const Row& row, int ranks, int rank, int micro_batches, int limit) {
  Progress before, done;
  for (const Action& action : row) {
    if (action.work == Work::kBackwardInput && action.chunk == 0) break;
    ++before.of(action.work, action.chunk);
  }
  const int up = std::min({rank + 1, limit / 2, micro_batches});
  const int down = std::min(limit - up, micro_batches);
  Row result;
  const auto add = [&](Work work, int chunk, int count) {
    int& mb = done.of(work, chunk);
    if (mb >= count) return false;
    result.push_back({.work = work, .chunk = chunk, .mb = mb++});
    return true;
  };
  for (int i = 0; i < 2 * (ranks - 1 - rank); ++i) add(Work::kForward, 0, down);
  for (int i = 0; i <= rank; ++i) {
    add(Work::kForward, 0, down);
    add(Work::kForward, 1, up);
  }
  for (bool more = true; more;) {
    more = add(Work::kBackwardInput, 1, before.of(Work::kBackwardInput, 1));
    more |= add(Work::kForward, 1, std::max(up, before.of(Work::kForward, 1))) ||
            add(Work::kForward, 0, std::max(down, before.of(Work::kForward, 0)));
  }
  for (const Action& action : row) {
    int& mb = done.of(action.work, action.chunk);
    if (action.mb == mb) result.push_back(action), ++mb;
  }
  return result;
}

// In the order of ticks; of two actions on one tick the one that the block has first.
Row block_row(const BuildingBlock& block, int ranks, int rank, int micro_batches,
              const Ends& ends) {
  const BlockTicks at = block_ticks(block, ranks, rank);
  const int last = block.period * (micro_batches - 1) + block_ticks(block, ranks, 0)[1];
  std::vector<std::tuple<int, int, std::size_t>> line;
  for (int mb = 0; mb < micro_batches; ++mb)
    for (std::size_t i = 0; i < at.size(); ++i) {
      const int tick = block.period * mb + at[i];
      const int moved =
          ends.drain ? drained(tick, i, micro_batches - 1 - mb, rank, ranks, last, ends.limit)
                     : tick;
      line.push_back({moved, tick, i});
    }
  std::ranges::sort(line);
  Row row;
  Progress done;
  for (const auto& [moved, tick, i] : line) {
    const auto [work, chunk] = kBlockActions[i];
    row.push_back({.work = work, .chunk = chunk, .mb = done.of(work, chunk)++});
  }
  return row;
}

}  // namespace

std::vector<Row> repeated(const BuildingBlock& block, int ranks, int micro_batches,
                          const Ends& ends) {
  std::vector<Row> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    Row row = block_row(block, ranks, rank, micro_batches, ends);
    if (ends.fill) row = filled(row, ranks, rank, micro_batches, ends.limit);
    if (!row_fits(row, ends.limit)) return {};
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<BuildingBlock> building_blocks(int ranks, int limit) {
  constexpr int kGaps = 6;
  std::vector<BuildingBlock> blocks;
  int most = 0;
  for (int period = 6; blocks.empty(); ++period)
    for (int early = 1; early < 6; ++early)
      for (int late = 1; late <= early; ++late)
        for (int turn = early == late ? 0 : 1; turn < (early == late ? 1 : ranks - 1); ++turn)
          for (int gaps = 0; gaps < kGaps * kGaps * kGaps; ++gaps) {
            const BuildingBlock block = {
                .early = early,
                .late = late,
                .turn = turn,
                .gap = {gaps / kGaps / kGaps, gaps / kGaps % kGaps, gaps % kGaps},
                .period = period};
            const std::optional<int> held = block_holds(block, ranks);
            if (!held || *held > limit || *held < most - 1) continue;
            most = std::max(most, *held);
            blocks.push_back(block);
          }
  return blocks;
}

std::vector<Row> zb_v_order(int ranks, int micro_batches) {
  std::vector<Row> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = rows.emplace_back();
    std::array<std::array<int, 2>, 3> done{};
    const auto add = [&](Work work, int chunk) {
      int& mb = done[static_cast<std::size_t>(work)][chunk];
      if (mb < micro_batches) row.push_back({.work = work, .chunk = chunk, .mb = mb++});
    };
    const int from_here = ranks - rank;
    for (int i = 0; i < 2 * from_here - 1; ++i) add(Work::kForward, 0);
    for (int i = 0; i < rank; ++i) add(Work::kForward, 1), add(Work::kForward, 0);
    for (int i = 0; i < from_here; ++i) add(Work::kForward, 1), add(Work::kBackwardInput, 1);
    while (static_cast<int>(row.size()) < 4 * micro_batches) {
      add(Work::kForward, 0), add(Work::kBackwardInput, 0);
      add(Work::kForward, 1), add(Work::kBackwardInput, 1);
    }
  }
  return rows;
}

}  // namespace trireme::schedules
