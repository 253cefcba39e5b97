// A pipeline schedule: eager 1F1B. docs/extending.md quotes it.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/extending/own_loop.h"
#include "trireme/optim/adamw.h"
#include "trireme/plan/schedules/fixed.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::extending::schedule_test {
namespace {

using namespace schedules;  // NOLINT: its words are those of the quoted code

// [row]
// Eager 1F1B (Zhuang et al. 2023): nearly twice as many forwards ahead as in 1F1B, so that a transfer has the time of
// another micro-batch.
Row eager_1f1b_row(int ranks, int micro_batches, int rank) {
  const int ahead = std::min(2 * (ranks - rank) - 1, micro_batches);
  Row row;
  for (int mb = 0; mb < ahead; ++mb) row.push_back({.work = Work::kForward, .mb = mb});
  for (int mb = 0; mb < micro_batches; ++mb) {
    row.push_back({.work = Work::kBackward, .mb = mb});
    if (ahead + mb < micro_batches) row.push_back({.work = Work::kForward, .mb = ahead + mb});
  }
  return row;
}

const ScheduleInfo kEager{
    .name = "eager_1f1b",
    .row = [](const ScheduleShape& s,
              int rank) { return eager_1f1b_row(s.ranks, s.micro_batches, rank); },
    .in_flight =
        [](const Pipe& pipe, Place place) {
          return InFlight{.kept = place == Place::kLast    ? 1
                                  : place == Place::kFirst ? 2 * pipe.ranks - 1
                                                           : 2 * pipe.ranks - 3};
        },
    .bubble = [](const Pipe& pipe,
                 const TurnTimes& turn) { return (pipe.ranks - 1) * turn.all / pipe.chunks; }};
// [end]

Grid eager(int ranks, int micro_batches) {
  const ScheduleShape shape{.ranks = ranks, .micro_batches = micro_batches};
  Grid grid{.placement = kEager.placement, .micro_batches = micro_batches};
  for (int rank = 0; rank < ranks; ++rank) grid.rows.push_back(kEager.row(shape, rank));
  return grid;
}

TEST(OwnSchedule, IsAGridWithTheMemoryAndBubbleOfItsRow) {
  for (const auto& [p, m] : {std::pair{2, 8}, {4, 16}, {3, 7}, {4, 2}}) {
    SCOPED_TRACE(fmt::format("{} ranks, {} micro-batches", p, m));
    const Grid grid = eager(p, m);
    ASSERT_NO_THROW(check_grid(grid));
    const Pipe pipe{.ranks = static_cast<double>(p), .micro_batches = static_cast<double>(m)};
    const std::vector<double> kept = peak_activations(grid);
    for (int rank = 0; rank < p; ++rank) {
      const Place place = rank == 0 ? Place::kFirst : rank + 1 < p ? Place::kMiddle : Place::kLast;
      EXPECT_LE(kept[rank], kEager.in_flight(pipe, place).kept);
    }
    const GridTimes times = time_grid(grid, {.ranks = p, .micro_batches = m});
    const StageCost cost;  // 1 for forward, input and weight
    EXPECT_DOUBLE_EQ(times.makespan,
                     3 * m + kEager.bubble(pipe, {.all = 3, .weight = 1, .forward = 1}));
  }
}

TEST(OwnSchedule, HidesTransfersThat1F1BWaitsFor) {
  const int p = 4, m = 16;
  const ScheduleShape shape{.ranks = p, .micro_batches = m, .transfer = 0.5};
  Grid one{.micro_batches = m};
  for (int rank = 0; rank < p; ++rank) one.rows.push_back(one_f_one_b_row(p, m, rank));
  EXPECT_LT(time_grid(eager(p, m), shape).makespan, time_grid(one, shape).makespan - 4);
}

TEST(OwnSchedule, ChangesNoBit) {
  const config::Job job = loop_job(2, {"parallel.pp=2"});
  Own own{.optimizer = [] { return std::make_unique<optim::AdamW>(optim::OptimizerOptions{}); },
          .rate = [](std::int64_t) { return 0.01; }};
  const std::vector<double> one = losses(job, 2, own);
  EXPECT_LT(one.back(), one.front());
  own.grid = eager(2, 8);
  EXPECT_EQ(one, losses(job, 2, own));
}

}  // namespace
}  // namespace trireme::extending::schedule_test
