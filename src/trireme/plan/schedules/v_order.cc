#include "trireme/plan/schedules/v_order.h"

#include <algorithm>
#include <utility>

namespace trireme::plan::schedules {
namespace {

constexpr int kPeriod = 6;

// Ticks of micro-batch 0 on a rank: F and F, I and I in the order of the V.
std::array<int, 4> ticks(const BuildingBlock& block, int ranks, int rank) {
  const auto& [step, gap] = block;
  const int last = ranks - 1;
  const int forward_up = step[0] * last + 1 + gap[0];  // on the last rank
  const int input_down = forward_up + step[1] * last + 1 + gap[1];
  const int input_up = input_down + step[2] * last + 1 + gap[2];
  return {step[0] * rank, forward_up + step[1] * (last - rank), input_down + step[2] * rank,
          input_up + step[3] * (last - rank)};
}

bool collides(const BuildingBlock& block, int ranks) {
  for (int rank = 0; rank < std::min(ranks, kPeriod); ++rank) {
    int taken = 0;
    for (const int tick : ticks(block, ranks, rank)) {
      if (taken >> tick % kPeriod & 1) return true;
      taken |= 1 << tick % kPeriod;
    }
  }
  return false;
}

}  // namespace

std::vector<Row> repeated(const BuildingBlock& block, int ranks, int micro_batches) {
  constexpr std::array<std::pair<Work, int>, 4> kActions = {{{Work::kForward, 0},
                                                             {Work::kForward, 1},
                                                             {Work::kBackwardInput, 1},
                                                             {Work::kBackwardInput, 0}}};
  std::vector<Row> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::array<int, 4> at = ticks(block, ranks, rank);
    std::vector<std::pair<int, Action>> line;
    for (int mb = 0; mb < micro_batches; ++mb)
      for (std::size_t i = 0; i < at.size(); ++i)
        line.push_back({kPeriod * mb + at[i],
                        {.work = kActions[i].first, .chunk = kActions[i].second, .mb = mb}});
    std::ranges::sort(line, {}, &std::pair<int, Action>::first);
    Row& row = rows.emplace_back();
    for (const auto& [tick, action] : line) row.push_back(action);
  }
  return rows;
}

std::vector<BuildingBlock> building_blocks(int ranks) {
  std::vector<BuildingBlock> blocks;
  for (int code = 0; code < 16; ++code) {
    const std::array<int, 4> step = {1 + (code & 1), 1 + (code >> 1 & 1), 1 + (code >> 2 & 1),
                                     1 + (code >> 3 & 1)};
    // Else the first rank's activations live longer than the last one's, or the other way round.
    if (step[0] + step[3] != step[1] + step[2]) continue;
    for (int gaps = 0; gaps < kPeriod * kPeriod * kPeriod; ++gaps) {
      const BuildingBlock block = {
          step, {gaps / kPeriod / kPeriod, gaps / kPeriod % kPeriod, gaps % kPeriod}};
      if (!collides(block, ranks)) blocks.push_back(block);
    }
  }
  return blocks;
}

std::vector<Row> zb_v_order(int ranks, int micro_batches) {
  std::vector<Row> rows;
  for (int rank = 0; rank < ranks; ++rank) {
    Row& row = rows.emplace_back();
    std::array<std::array<int, 2>, 3> done{};
    const auto add = [&](Work work, int chunk) {
      int& mb = done[static_cast<std::size_t>(work)][static_cast<std::size_t>(chunk)];
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

}  // namespace trireme::plan::schedules
