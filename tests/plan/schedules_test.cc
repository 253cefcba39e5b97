#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::schedules::schedules_test {
namespace {

using testing::Each;
using testing::HasSubstr;

std::vector<Schedule> all_schedules() {
  std::vector<Schedule> all;
  for (int i = 0; i < kScheduleCount; ++i) all.push_back(static_cast<Schedule>(i));
  return all;
}

ScheduleShape shape_of(Schedule schedule, int ranks, int micro_batches, StageCost stage = {}) {
  const int chunks = chunks_of(schedule, 0);
  return {.ranks = ranks,
          .chunks = chunks,
          .micro_batches = micro_batches,
          .stages = std::vector<StageCost>(static_cast<std::size_t>(ranks * chunks), stage)};
}

GridTimes times(Schedule schedule, int ranks, int micro_batches, StageCost stage = {}) {
  const ScheduleShape shape = shape_of(schedule, ranks, micro_batches, stage);
  return time_grid(make_grid(schedule, shape), shape);
}

double work(Schedule schedule, int micro_batches, StageCost stage = {}) {
  return chunks_of(schedule, 0) * micro_batches * (stage.forward + stage.input + stage.weight);
}

double peak(const GridTimes& times) { return std::ranges::max(times.peak_activations); }

bool admits(Schedule schedule, int ranks, int micro_batches) {
  if (schedule == Schedule::kInterleaved) return micro_batches % ranks == 0;
  return schedule != Schedule::kDualPipeV || micro_batches >= 2 * ranks;
}

std::string refusal(Schedule schedule, const ScheduleShape& shape) {
  try {
    make_grid(schedule, shape);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    return error.what();
  }
  return "accepted";
}

// anchors.md, "Parameter grid used by PyTorch's pipelining tests": local stages, micro-batches, ranks.
constexpr int kTuples[][3] = {{2, 2, 2},  {2, 4, 4},   {2, 8, 2},   {2, 8, 4},    {2, 8, 8},
                              {4, 4, 4},  {4, 8, 4},   {4, 8, 8},   {4, 16, 4},   {4, 32, 4},
                              {4, 64, 4}, {4, 16, 16}, {4, 32, 32}, {4, 128, 64}, {3, 2, 2},
                              {3, 8, 2},  {3, 12, 4},  {4, 6, 3},   {4, 10, 5},   {2, 3, 4},
                              {2, 4, 4},  {2, 10, 4},  {2, 15, 4}};

TEST(Schedules, AreValidOnPyTorchsGrid) {
  int grids = 0;
  for (const auto& [stages, m, p] : kTuples)
    for (const Schedule schedule : all_schedules()) {
      SCOPED_TRACE(fmt::format("{} {} {} {}", name(schedule), stages, m, p));
      ScheduleShape shape = shape_of(schedule, p, m);
      if (schedule == Schedule::kInterleaved) shape.chunks = stages;
      shape.stages.clear();
      if (!admits(schedule, p, m)) {
        EXPECT_THAT(refusal(schedule, shape), HasSubstr("take"));
        continue;
      }
      const Grid grid = make_grid(schedule, shape);
      ++grids;
      ASSERT_NO_THROW(check_grid(grid));
      EXPECT_EQ(grid.ranks(), p);
      EXPECT_EQ(grid.placement, placement_of(schedule));
      bool split = false;
      for (const Row& row : grid.rows)
        split |= std::ranges::count(row, Work::kBackwardInput, &Action::work) > 0;
      EXPECT_EQ(split, schedule >= Schedule::kZbH1);
    }
  EXPECT_EQ(grids, 9 * 23 + 20 + 13);
}

// anchors.md, "Makespans ran with the zero-bubble scheduler" and "GPipe holds m micro-batches".
TEST(Schedules, TakeAsLongAndHoldAsMuchAsTheZeroBubbleSchedulerSays) {
  for (const auto& [p, m] : {std::pair{4, 8}, {4, 12}, {2, 4}, {8, 24}, {5, 9}, {1, 3}}) {
    const GridTimes one = times(Schedule::k1F1B, p, m);
    EXPECT_EQ(one.makespan, 3 * m + 3 * (p - 1));
    for (int rank = 0; rank < p; ++rank) EXPECT_EQ(one.peak_activations[rank], p - rank);
    const GridTimes zero = times(Schedule::kZbH1, p, m);
    EXPECT_EQ(zero.makespan, 3 * m + (p - 1));
    EXPECT_THAT(zero.peak_activations, Each(p));
    EXPECT_THAT(times(Schedule::kGpipe, p, m).peak_activations, Each(m));
  }
}

TEST(Schedules, TakeFewerMicroBatchesThanRanks) {
  EXPECT_EQ(times(Schedule::k1F1B, 4, 2).makespan, 3 * 2 + 3 * 3);
  EXPECT_EQ(times(Schedule::kGpipe, 4, 1).makespan, 3 * 4);
  EXPECT_EQ(times(Schedule::kZbH1, 8, 3).makespan, 7 + 2 * 3 + 7 + 1);
  for (const Schedule schedule : all_schedules())
    if (admits(schedule, 6, 2)) {
      EXPECT_LE(peak(times(schedule, 6, 2)), 2);
    }
}

// anchors.md, "Bubble rate"; performance.md section 2, "Absolute".
TEST(Schedules, HaveTheBubblesOfTheFormulas) {
  for (const StageCost& cost : {StageCost{1, 1, 1}, {3, 4, 2}, {4, 5, 2}, {10, 12, 9}})
    for (const auto& [p, m] : {std::pair{2, 8}, {4, 16}, {8, 32}}) {
      const auto bubble = [&](Schedule schedule) {
        return times(schedule, p, m, cost).longest_rank - work(schedule, m, cost);
      };
      const double f = cost.forward, i = cost.input, w = cost.weight;
      for (const Schedule schedule : {Schedule::kGpipe, Schedule::k1F1B}) {
        EXPECT_DOUBLE_EQ(bubble(schedule) / times(schedule, p, m, cost).longest_rank,
                         (p - 1.0) / (m + p - 1));
      }
      EXPECT_DOUBLE_EQ(bubble(Schedule::kInterleaved), (p - 1) * (f + i + w));
      EXPECT_DOUBLE_EQ(bubble(Schedule::kZbH1), (p - 1) * (f + i - w));
      EXPECT_DOUBLE_EQ(bubble(Schedule::kZbH2), (p - 1) * (f + i - 2 * w));
      // DeepSeek's formula, forward and backward of a pair one after the other; theirs is an upper bound.
      EXPECT_LE(bubble(Schedule::kDualPipeV), (p - 1) * ((f + i + w) + (i + w) - 3 * w));
      EXPECT_THAT(times(Schedule::kDualPipeV, p, m, cost).peak_activations, Each(p + 0.5));
    }
}

TEST(Schedules, ZbVHasNoBubbleIn1F1BsMemory) {
  for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {4, 12}, {8, 16}, {16, 48}}) {
    const GridTimes v = times(Schedule::kZbV, p, m);
    EXPECT_EQ(v.longest_rank, work(Schedule::kZbV, m));
    EXPECT_EQ(peak(v), p);
  }
}

// performance.md section 2: half and a third of 1F1B's memory. The papers' repository promises half and two
// thirds of 1F1B's bubble at equal halves.
TEST(Schedules, VShapesTradeMemoryForBubble) {
  for (const auto& [p, m] : {std::pair{4, 8}, {6, 24}, {8, 24}, {9, 40}, {16, 48}, {32, 64}}) {
    const double bubble = 3.0 * (p - 1) * 2;  // of 1F1B, in chunks' time
    const GridTimes half = times(Schedule::kVHalf, p, m);
    EXPECT_LE(half.longest_rank - work(Schedule::kVHalf, m), bubble / 2);
    EXPECT_LE(peak(half), p / 2 + 1);
    const GridTimes least = times(Schedule::kVMin, p, m);
    EXPECT_LE(least.longest_rank - work(Schedule::kVMin, m), bubble * 2 / 3);
    EXPECT_LE(peak(least), (p + 4) / 3.0);
  }
}

double v_auto_bubble(int ranks, int micro_batches, int chunks) {
  ScheduleShape shape = shape_of(Schedule::kVAuto, ranks, micro_batches);
  shape.activation_limit = chunks / (2.0 * ranks);
  const Grid grid = make_grid(Schedule::kVAuto, shape);
  check_grid(grid);
  const GridTimes took = time_grid(grid, shape);
  EXPECT_LE(2 * peak(took), chunks);
  return took.longest_rank - work(Schedule::kVAuto, micro_batches);
}

// Qi et al. 2024: from V-ZB's memory down to V-Min's each chunk less costs three forwards of a chunk.
double least_v_bubble(int ranks, int chunks) {
  const int turn = 2 * (1 + (chunks + 1) / 2);
  return 3 * ranks - 1 - 3 * chunks + std::max(3 * ranks, ranks - 1 + turn);
}

TEST(Schedules, VAutoHasTheLeastBubbleWithinItsLimit) {
  constexpr int kVMinRoom[] = {6, 4, 8};
  constexpr std::pair<int, int> kLeast[] = {{8, 0}, {7, 3}, {6, 5}, {5, 8}, {4, 11}};
  for (const int m : {8, 12, 20})
    for (const auto& [chunks, bubble] : kLeast) EXPECT_EQ(v_auto_bubble(4, m, chunks), bubble);
  for (const auto& [p, m] :
       {std::pair{2, 8}, {3, 9}, {5, 15}, {6, 12}, {7, 21}, {8, 24}, {9, 18}, {12, 24}})
    for (int chunks = p <= 2 ? 2 * p : (2 * p + kVMinRoom[p % 3]) / 3; chunks <= 2 * p; ++chunks) {
      SCOPED_TRACE(fmt::format("p{} m{} {} chunks", p, m, chunks));
      EXPECT_LE(v_auto_bubble(p, m, chunks), least_v_bubble(p, chunks));
    }
}

TEST(Schedules, VAutoTakesAnyLimitFromOneMicroBatchOn) {
  for (const int p : {1, 2, 3, 5, 8}) {
    double last = 1e9;
    for (int chunks = 2; chunks <= 2 * p + 3; ++chunks) {
      const double bubble = v_auto_bubble(p, 3 * p, chunks);
      EXPECT_LE(bubble, last) << p << " ranks, " << chunks << " chunks";
      last = bubble;
    }
    EXPECT_EQ(last, 0);
  }
}

// A row of table 5 or 8 of the zero-bubble paper, times in ms: T_F, T_B (the input half), T_W, T_comm.
struct Model {
  int ranks, micro_batches, layers;  // layers: of a stage, 1F1B-I's chunks
  StageCost stage;
  double transfer;
};
constexpr Model kModels[] = {
    {8, 24, 3, {18.522, 18.086, 9.337}, 0.601},  {8, 64, 3, {18.546, 18.097, 9.321}, 0.762},
    {8, 24, 4, {29.718, 29.444, 19.927}, 0.527}, {8, 32, 4, {29.802, 29.428, 19.53}, 0.577},
    {16, 64, 3, {11.307, 11.254, 8.101}, 0.379}, {16, 128, 3, {11.325, 11.308, 8.109}, 0.378},
    {32, 96, 2, {10.419, 10.207, 7.715}, 0.408}, {32, 256, 2, {10.402, 10.248, 7.698}, 0.46}};

double bubble_rate(Schedule schedule, const Model& model, double limit = 1, int batches = 0) {
  const int chunks = schedule == Schedule::kInterleaved ? model.layers : chunks_of(schedule, 0);
  const auto& [f, i, w] = model.stage;
  const ScheduleShape shape{
      .ranks = model.ranks,
      .chunks = chunks,
      .micro_batches = batches > 0 ? batches : model.micro_batches,
      .stages = std::vector<StageCost>(static_cast<std::size_t>(model.ranks * chunks),
                                       {f / chunks, i / chunks, w / chunks}),
      .transfer = model.transfer,
      .activation_limit = limit,
      .kept = 0.43};  // 32 s b h of s b (34 h + 5 a s), with 5 a s / h = 40
  const Grid grid = make_grid(schedule, shape);
  check_grid(grid);
  return 1 - shape.micro_batches * (f + i + w) / time_grid(grid, shape).longest_rank;
}

// zb_table5_8_bubble_rates.csv; performance.md section 3.4: 1F1B to 4 decimals, others half a point or better.
TEST(Schedules, ReproduceTheBubbleRatesOfTheZeroBubblePaper) {
  constexpr double k1F1B[] = {0.2431, 0.124, 0.2347, 0.1898, 0.2082, 0.1251, 0.2646, 0.1352};
  constexpr double kInterleaved[] = {0.1055, 0.0443, 0.0808, 0.0628,
                                     0.0852, 0.0445, 0.1493, 0.0624};
  constexpr double kH1[] = {0.1585, 0.0674, 0.1323, 0.1045, 0.1088, 0.0576, 0.1421, 0.0594};
  constexpr double kH2[] = {0.1083, 0.0444, 0.0698, 0.0559, 0.0516, 0.0266, 0.0641, 0.0257};
  constexpr double k2p[] = {0.0433, 0.0026, 0.0029, 0.0022, 0.0054, 0.0028, 0.0038, 0.0018};
  for (std::size_t i = 0; i < std::size(kModels); ++i) {
    SCOPED_TRACE(i);
    const Model& model = kModels[i];
    EXPECT_NEAR(bubble_rate(Schedule::k1F1B, model), k1F1B[i], 5.1e-5);
    EXPECT_LE(bubble_rate(Schedule::kInterleaved, model), kInterleaved[i] + 0.005);
    EXPECT_NEAR(bubble_rate(Schedule::kZbH1, model), kH1[i], 1e-4);
    EXPECT_NEAR(bubble_rate(Schedule::kZbH2, model), kH2[i], 1e-4);
    EXPECT_LE(bubble_rate(Schedule::kZbAuto, model, 1), kH1[i] + 1e-4);
    EXPECT_LE(bubble_rate(Schedule::kZbAuto, model, 2), k2p[i] + 0.0015);
  }
  // Table 8, the 28.3B model; its stages have the layers of table 5.
  EXPECT_LE(bubble_rate(Schedule::kZbV, kModels[6]), 0.0593);
  EXPECT_LE(bubble_rate(Schedule::kZbV, kModels[6], 1, 128), 0.0451);
}

// Random shapes: valid, no rank faster than its work, the search within its memory and never behind the
// papers' fixed orders, the same grid twice.
TEST(Schedules, HoldOnRandomShapes) {
  std::mt19937 random(137);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int i = 0; i < 60; ++i)
    for (const Schedule schedule : all_schedules()) {
      const int p = 1 + below(9);
      int m = 1 + below(30);
      if (schedule == Schedule::kInterleaved) m = p * (1 + below(4));
      if (schedule == Schedule::kDualPipeV) m += 2 * p;
      ScheduleShape shape = shape_of(schedule, p, m);
      for (StageCost& cost : shape.stages)
        cost = {below(9) * 0.25, below(9) * 0.25, below(9) * 0.25};
      shape.transfer = below(3) * 0.2;
      shape.activation_limit = 1 + below(9) / 8.0;
      shape.kept = below(5) * 0.25;
      SCOPED_TRACE(fmt::format("{} p{} m{} case {}", name(schedule), p, m, i));
      const Grid grid = make_grid(schedule, shape);
      ASSERT_NO_THROW(check_grid(grid));
      EXPECT_EQ(grid, make_grid(schedule, shape));
      const GridTimes took = time_grid(grid, shape);
      for (int rank = 0; rank < p; ++rank) {
        double busy = 0;
        for (int chunk = 0; chunk < grid.chunks; ++chunk) {
          const auto stage = static_cast<std::size_t>(stage_of(grid.placement, p, rank, chunk));
          const StageCost& cost = shape.stages[stage];
          busy += m * (cost.forward + cost.input + cost.weight);
        }
        EXPECT_GE(took.longest_rank + 1e-9, busy);
      }
      if (schedule == Schedule::kVAuto) {
        EXPECT_LE(peak(took), shape.activation_limit * p + 1e-9);
      }
      if (schedule != Schedule::kZbAuto) continue;
      EXPECT_LE(std::ranges::max(took.peak_memory), shape.activation_limit * p + 1e-9);
      const Grid h1 = make_grid(Schedule::kZbH1, shape);
      EXPECT_LE(took.longest_rank, time_grid(h1, shape).longest_rank);
    }
}

// anchors.md, "Interleaved order (micro-batch, chunk), Megatron's table".
TEST(Schedules, InterleaveInMegatronsOrder) {
  const Grid grid =
      make_grid(Schedule::kInterleaved, {.ranks = 2, .chunks = 2, .micro_batches = 4});
  for (const Row& row : grid.rows) {
    std::vector<std::pair<int, int>> order;
    for (const Action& action : row)
      if (action.work == Work::kForward) order.push_back({action.mb, action.chunk});
    EXPECT_THAT(order, testing::ElementsAre(std::pair{0, 0}, std::pair{1, 0}, std::pair{0, 1},
                                            std::pair{1, 1}, std::pair{2, 0}, std::pair{3, 0},
                                            std::pair{2, 1}, std::pair{3, 1}));
  }
}

TEST(Schedules, CountTransfersBetweenRanksOnly) {
  const ScheduleShape loop{.ranks = 2, .micro_batches = 1, .transfer = 0.5};
  EXPECT_EQ(time_grid(make_grid(Schedule::k1F1B, loop), loop).makespan, 2 * 3 + 2 * 0.5);
  const ScheduleShape v{.ranks = 2, .chunks = 2, .micro_batches = 1, .transfer = 0.5};
  const GridTimes times = time_grid(make_grid(Schedule::kZbV, v), v);
  // Down, turn on rank 1 for nothing, up; and back. One W of rank 0 is left at the end.
  EXPECT_EQ(times.makespan, 4 + 4 + 4 * 0.5 + 1);
}

TEST(Schedules, ExploitMemoryAndCheapWeightGradients) {
  ScheduleShape shape = shape_of(Schedule::kZbAuto, 8, 32, {3, 3, 2});
  double last = 1e9;
  for (const double limit : {0.5, 1.0, 1.5, 2.0}) {
    shape.activation_limit = limit;
    const double longest = time_grid(make_grid(Schedule::kZbAuto, shape), shape).longest_rank;
    EXPECT_LT(longest, last);
    last = longest;
  }
  EXPECT_LE(last, work(Schedule::kZbAuto, 32, {3, 3, 2}) * 1.005);
}

TEST(Schedules, RefuseCountsWithTheNearestThatWork) {
  const auto of = [](Schedule schedule, int p, int m, int chunks) {
    return refusal(schedule, {.ranks = p, .chunks = chunks, .micro_batches = m});
  };
  EXPECT_EQ(
      of(Schedule::kInterleaved, 4, 10, 2),
      "interleaved on 4 pipeline ranks takes micro-batches in groups of 4, not 10: take 8 or 12");
  EXPECT_THAT(of(Schedule::kInterleaved, 4, 3, 2), HasSubstr("not 3: take 4"));
  EXPECT_EQ(
      of(Schedule::kDualPipeV, 4, 6, 2),
      "dualpipe_v on 4 pipeline ranks takes at least 8 micro-batches, not 6: take 8, or zb_v");
  EXPECT_THAT(of(Schedule::k1F1B, 4, 0, 1), HasSubstr("at least one of each"));
  EXPECT_THAT(of(Schedule::k1F1B, 4, 8, 2),
              HasSubstr("1f1b puts 1 virtual stage on a pipeline rank, not 2"));
  EXPECT_THAT(of(Schedule::kVHalf, 4, 8, 3), HasSubstr("not 3: take 2, or interleaved"));
  EXPECT_THAT(of(Schedule::kInterleaved, 4, 8, 1), HasSubstr("take 2, or 1f1b"));
  EXPECT_THAT(refusal(Schedule::kVAuto,
                      {.ranks = 4, .chunks = 2, .micro_batches = 8, .activation_limit = 0.2}),
              HasSubstr("take at least 0.25"));
  EXPECT_THAT(refusal(Schedule::kZbAuto, {.ranks = 4, .micro_batches = 8, .activation_limit = 0.2}),
              HasSubstr("take at least 0.25"));
}

TEST(Schedules, KnowTheirNamesAndChunks) {
  std::set<std::string_view> names;
  for (const Schedule schedule : all_schedules()) {
    EXPECT_EQ(schedule_of(name(schedule)), schedule);
    names.insert(name(schedule));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kScheduleCount));
  EXPECT_EQ(schedule_of("2f2b"), std::nullopt);
  EXPECT_EQ(chunks_of(Schedule::kInterleaved, 3), 3);
  EXPECT_EQ(chunks_of(Schedule::kZbV, 0), 2);
  EXPECT_EQ(chunks_of(Schedule::kZbV, 2), 2);
  EXPECT_EQ(chunks_of(Schedule::kZbH1, 1), 1);
}

TEST(Grid, PlacesStages) {
  for (const Placement placement : {Placement::kLoop, Placement::kV})
    for (int p : {1, 2, 5})
      for (int stage = 0; stage < 2 * p; ++stage)
        EXPECT_EQ(
            stage_of(placement, p, rank_of(placement, p, stage), chunk_of(placement, p, stage)),
            stage);
  EXPECT_EQ(rank_of(Placement::kLoop, 4, 6), 2);
  EXPECT_EQ(rank_of(Placement::kV, 4, 6), 1);
}

std::string fault(const Grid& grid) {
  try {
    check_grid(grid);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// Planted: every action taken out, doubled, given to another micro-batch.
TEST(Grid, SeesEveryWrongAction) {
  for (const Schedule schedule : all_schedules()) {
    const Grid good = make_grid(schedule, shape_of(schedule, 3, 6));
    EXPECT_EQ(fault(good), "accepted");
    for (std::size_t rank = 0; rank < good.rows.size(); ++rank)
      for (std::size_t i = 0; i < good.rows[rank].size(); ++i) {
        SCOPED_TRACE(fmt::format("{} rank {} place {}", name(schedule), rank, i));
        const auto at = static_cast<std::ptrdiff_t>(i);
        Grid bad = good;
        bad.rows[rank].erase(bad.rows[rank].begin() + at);
        EXPECT_TRUE(find_fault(bad));
        bad = good;
        bad.rows[rank].insert(bad.rows[rank].begin() + at, bad.rows[rank][i]);
        EXPECT_TRUE(find_fault(bad));
        bad = good;
        bad.rows[rank][i].mb = (bad.rows[rank][i].mb + 1) % 6;
        EXPECT_TRUE(find_fault(bad));
        bad = good;
        bad.rows[rank][i].chunk += 1;
        EXPECT_TRUE(find_fault(bad));
      }
  }
}

TEST(Grid, NamesRankPlaceAndAction) {
  using enum Work;
  const auto grid = [](Row first, Row second) {
    return Grid{.micro_batches = 2, .rows = {std::move(first), std::move(second)}};
  };
  const Row one_by_one = {{kForward, 0, 0}, {kBackward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}};
  const Row together = {{kForward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 0}, {kBackward, 0, 1}};
  EXPECT_EQ(fault(grid(together, one_by_one)), "accepted");
  EXPECT_EQ(fault(grid(one_by_one, together)),
            "pipeline rank 0, place 1, 0B0: waits forever: 1I0 of rank 1");
  EXPECT_EQ(fault(grid({{kForward, 0, 0}, {kBackwardWeight, 0, 0}}, together)),
            "pipeline rank 0, place 1, 0W0: comes before 0I0");
  EXPECT_EQ(fault(grid({{kForward, 0, 1}}, together)),
            "pipeline rank 0, place 0, 0F1: comes before 0F0");
  EXPECT_EQ(fault(grid(together, {{kForward, 0, 0}})),
            "pipeline rank 1, place 1, end: the row ends without 1F1");
  EXPECT_EQ(
      fault(grid({{kForward, 0, 0}, {kForward, 0, 1}, {kBackwardInput, 0, 0}, {kBackward, 0, 1}},
                 together)),
      "pipeline rank 0, place 3, 0B1: comes before 0W0");
}

// With a barrier at the end of the step a search may not gain on one rank what another loses.
TEST(Schedules, SearchesForAShortStepWhereRanksMeetAtItsEnd) {
  for (const Schedule schedule :
       {Schedule::kZbAuto, Schedule::kZbV, Schedule::kVHalf, Schedule::kVAuto})
    for (const int p : {2, 4, 8}) {
      ScheduleShape shape{.ranks = p,
                          .chunks = chunks_of(schedule, 0),
                          .micro_batches = 3 * p,
                          .activation_limit = 2};
      const double free = time_grid(make_grid(schedule, shape), shape).makespan;
      shape.barrier = true;
      EXPECT_LE(time_grid(make_grid(schedule, shape), shape).makespan, free) << name(schedule) << p;
    }
}

}  // namespace
}  // namespace trireme::schedules::schedules_test
