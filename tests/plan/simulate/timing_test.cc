// Pipelines in time: what schedules promise as grids, plans keep.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "tests/harness/examples.h"
#include "tests/plan/pipelines.h"
#include "trireme/plan/actions.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/critical_path.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate::timing_test {
namespace {

using plan::NodeSeconds;
using plan::PlanSet;
using schedules::Schedule;
using testing::HasSubstr;
using testing::StartsWith;

// Nodes take their seconds, transfers a latency, everything else nothing.
CostModel latency_only(double latency) {
  return {.memory_bytes_per_s = 1e300,
          .link_bytes_per_s = 1e300,
          .link_latency_s = latency,
          .line_s = 0};
}

std::vector<Schedule> schedules_for(int ranks, int micro_batches) {
  std::vector<Schedule> all;
  for (int i = 0; i < schedules::kScheduleCount; ++i) {
    const auto one = static_cast<Schedule>(i);
    if (one == Schedule::kInterleaved && micro_batches % ranks != 0) continue;
    if (one == Schedule::kDualPipeV && micro_batches < 2 * ranks) continue;
    all.push_back(one);
  }
  return all;
}

// A plan of one node a stage takes exactly as long as the grid says, action by action, and holds as much.
TEST(Pipeline, TimesAndActivationsAreThoseOfTheGrid) {
  const NodeSeconds costs[] = {{1, 1, 1}, {18.522, 18.086, 9.337}, {0.7, 1.1, 0.4}};
  for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {3, 9}, {4, 2}, {8, 24}, {1, 3}})
    for (const NodeSeconds& cost : costs)
      for (const double transfer : {0.0, 0.3})
        for (Schedule schedule : schedules_for(p, m)) {
          SCOPED_TRACE(fmt::format("{} {} {} {} {}", name(schedule), p, m, cost.forward, transfer));
          const PlanSet plan = plan::pipeline(schedule, p, m, cost);
          const schedules::Grid grid = schedule_grid(plan.program, plan.mesh, plan.recipe);
          const schedules::GridTimes times =
              time_grid(grid, {.ranks = p,
                               .chunks = grid.chunks,
                               .micro_batches = m,
                               .stages = std::vector<schedules::StageCost>(
                                   static_cast<std::size_t>(p * grid.chunks),
                                   {cost.forward, cost.input, cost.weight}),
                               .transfer = transfer});
          const Forecast forecast = simulate(plan, latency_only(transfer));
          double longest = 0;
          for (std::size_t rank = 0; rank < grid.rows.size(); ++rank) {
            const auto lines = actions(plan.program, plan.lists[rank]);
            ASSERT_EQ(lines.size(), times.at[rank].size());
            for (std::size_t i = 0; i < lines.size(); ++i) {
              const auto& at = forecast.lists[rank].lines;
              ASSERT_NEAR(at[lines[i].first].start, times.at[rank][i].first,
                          1e-12 * times.makespan);
              ASSERT_NEAR(at[lines[i].last].end, times.at[rank][i].second, 1e-12 * times.makespan);
            }
            longest = std::max(longest, forecast.lists[rank].nodes_span_s);
          }
          EXPECT_NEAR(longest, times.longest_rank, 1e-12 * longest);
          EXPECT_EQ(peak_activations(plan), times.peak_activations);
        }
}

// Qi et al. 2023 (arXiv 2401.10241), tables 5 and 9, rows of 1F1B: p, m, rate, T_F, T_B, T_W, T_comm in ms. T_B is
// the input half.
TEST(Pipeline, BubbleRatesOf1F1BAreThePapers) {
  struct Row {
    int p, m;
    double rate, f, b, w, comm;
  };
  for (const Row& row : {Row{8, 24, 0.2431, 18.522, 18.086, 9.337, 0.601},
                         Row{8, 64, 0.124, 18.546, 18.097, 9.321, 0.762},
                         Row{8, 24, 0.2347, 29.718, 29.444, 19.927, 0.527},
                         Row{8, 32, 0.1898, 29.802, 29.428, 19.53, 0.577},
                         Row{16, 64, 0.2082, 11.307, 11.254, 8.101, 0.379},
                         Row{16, 128, 0.1251, 11.325, 11.308, 8.109, 0.378},
                         Row{32, 96, 0.2646, 10.419, 10.207, 7.715, 0.408},
                         Row{32, 256, 0.1352, 10.402, 10.248, 7.698, 0.46}}) {
    const PlanSet plan = plan::pipeline(Schedule::k1F1B, row.p, row.m,
                                        NodeSeconds{row.f / 1e3, row.b / 1e3, row.w / 1e3});
    EXPECT_NEAR(simulate(plan, latency_only(row.comm / 1e3)).pipeline_bubble, row.rate, 0.5e-4)
        << row.p << " " << row.m;
  }
}

// Transfers that take longer than the work between them queue up by their bytes, not by their latency.
TEST(Pipeline, LatencyIsOnTheWayTogether) {
  const PlanSet plan = plan::pipeline(Schedule::kGpipe, 2, 8, NodeSeconds{1, 1, 1});
  const auto forward_end = [&](double busy, double latency) {
    const Forecast forecast = simulate(plan, [&](int rank, const plan::Instr& line) {
      return is_transfer(line) ? LineSeconds(busy, latency)
                               : seconds(latency_only(0), plan, rank, line);
    });
    return forecast.step_s;
  };
  EXPECT_DOUBLE_EQ(forward_end(0, 1), 27 + 2);
  EXPECT_DOUBLE_EQ(forward_end(1, 0), 27 + 2);
  EXPECT_GT(forward_end(2, 0), 27 + 4 + 6);
}

double sum(const std::vector<PathShare>& shares) {
  double seconds = 0;
  for (const PathShare& one : shares) seconds += one.seconds;
  return seconds;
}

TEST(CriticalPath, HasNoGapsAndLastsAsLongAsTheStep) {
  for (Schedule schedule : schedules_for(4, 8)) {
    const PlanSet plan = plan::pipeline(schedule, 4, 8);
    const Forecast forecast = simulate(plan, CostModel());
    double until = 0;
    for (const PathPart& part : critical_path(forecast)) {
      EXPECT_EQ(part.start, until);
      EXPECT_GT(part.end, part.start);
      until = part.end;
    }
    EXPECT_EQ(until, forecast.step_s);
    EXPECT_NEAR(sum(path_shares(plan, forecast)), forecast.step_s, 1e-12);
  }
}

// What is made slow is what bounds.
TEST(CriticalPath, NamesTheStageTheKindAndTheNetwork) {
  plan::Program program =
      plan::stage_per_node(schedules::Placement::kLoop, 4, 1, NodeSeconds{1, 1, 1});
  program.nodes[3].seconds = NodeSeconds{1, 3, 2};  // of stage 2
  const auto sentence = [&](double latency, int ranks_of_dp = 1) {
    const PlanSet plan =
        compile(program, mesh::Mesh({.pp = 4, .dp_shard = ranks_of_dp}), {.micro_batches = 16});
    return bound_by(plan, simulate(plan, latency_only(latency)));
  };
  // 16 backwards of 5 s on stage 2; forwards: the first over all stages and the others there but one, which stage 3
  // has meanwhile; its first backward, and the last of stages 1 and 0.
  EXPECT_EQ(sentence(0),
            "bound by backward on stage 2: 77% of the critical path; forward 17%, "
            "backward elsewhere 6%");
  EXPECT_THAT(sentence(8), HasSubstr("bound by transfers on several stages"));
  EXPECT_THAT(sentence(0, 2), testing::Not(HasSubstr("collectives")));
  // One rank: no stages, no network.
  const PlanSet alone = plan::pipeline(Schedule::k1F1B, 1, 2, NodeSeconds{1, 1, 1});
  EXPECT_EQ(bound_by(alone, simulate(alone, latency_only(0))),
            "bound by backward: 67% of the critical path; forward 33%");
}

// 16,384 ranks, and a pipeline as long as they come: both in a blink.
TEST(Forecast, AnswersForThousandsOfRanksAtOnce) {
  const auto seconds_of = [](const mesh::Mesh& mesh, int micro_batches, int zero) {
    const auto start = std::chrono::steady_clock::now();
    const PlanSet plan =
        compile(harness::tied_example(mesh.degree(mesh::Axis::kPp), 64), mesh,
                {.zero = zero, .micro_batches = micro_batches, .schedule = Schedule::kZbH1});
    validate(plan);
    EXPECT_THAT(bound_by(plan, simulate(plan, CostModel())), StartsWith("bound by"));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  EXPECT_LT(seconds_of(mesh::Mesh({.pp = 16, .dp_shard = 1024}), 64, 3), 5);
  EXPECT_LT(seconds_of(mesh::Mesh({.pp = 64}), 512, 0), 10);
}

TEST(Forecast, ExposureIsToldByKind) {
  const PlanSet plan = plan::pipeline(Schedule::kGpipe, 2, 4, NodeSeconds{1, 1, 1});
  const Forecast forecast = simulate(plan, latency_only(0.5));
  // The first down shows on stage 1, the last up on stage 0, and the norm's message at the end on both.
  EXPECT_DOUBLE_EQ(forecast.lists[1].exposed_transfers_s, 0.5);
  EXPECT_DOUBLE_EQ(forecast.lists[0].exposed_transfers_s, 0.5);
  EXPECT_DOUBLE_EQ(forecast.lists[0].exposed_comm_s - forecast.lists[0].exposed_transfers_s, 0.5);
  EXPECT_DOUBLE_EQ(forecast.exposed_transfers_s, 0.5);
  EXPECT_EQ(forecast.peak_bytes,
            std::max(memory_account(plan, 0).peak_total, memory_account(plan, 1).peak_total));
  EXPECT_DOUBLE_EQ(forecast.lists[0].bubble_fraction, 1 - 12 / forecast.step_s);
}

}  // namespace
}  // namespace trireme::simulate::timing_test
