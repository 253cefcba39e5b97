// Measurements: made-up times of ranks become one picture, a trace and costs that the next run plans with.
#include "trireme/plan/simulate/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/plan/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/simulate/pictures/overlay.h"

namespace trireme::simulate::measured_test {
namespace {

using plan::NodeSeconds;
using plan::PlanSet;
using schedules::Schedule;
using testing::HasSubstr;

// A forecast, as every rank's clock would have told it.
RankTimes told_by(const PlanSet& plan, const Forecast& forecast,
                  const std::vector<double>& clocks) {
  RankTimes times;
  for (int rank = 0; rank < plan.mesh.world(); ++rank) {
    times.push_back(forecast.lists[plan.list_of_rank[static_cast<std::size_t>(rank)]].lines);
    for (LineTime& line : times.back()) {
      line.start += clocks[rank];
      line.end += clocks[rank];
    }
  }
  return times;
}

TEST(Measured, ClocksOfAHostStayAndThoseOfOthersMeetInTheNorm) {
  const PlanSet plan = plan::pipeline(Schedule::k1F1B, 4, 8, NodeSeconds{1e-3, 1e-3, 1e-3});
  const Forecast forecast = simulate(plan, {.link_latency_s = 1e-3});
  // Ranks 2 and 3 have been up for a day longer.
  const RankTimes times =
      on_one_clock(plan, told_by(plan, forecast, {5000, 5000, 91400, 91400.25}));
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    for (std::size_t i = 0; i < times[rank].size(); ++i) {
      EXPECT_NEAR(times[rank][i].start, forecast.lists[rank].lines[i].start, 1e-9);
      EXPECT_NEAR(times[rank][i].end, forecast.lists[rank].lines[i].end, 1e-9);
    }
  // A small difference on one clock is real and stays.
  RankTimes late = told_by(plan, forecast, {0, 0, 0, 0.5e-3});
  EXPECT_NEAR(on_one_clock(plan, late)[3].back().end, forecast.lists[3].lines.back().end + 0.5e-3,
              1e-9);
  late[1].pop_back();
  EXPECT_THROW(on_one_clock(plan, late), Error);
}

TEST(Measured, CostsAreMeansAndPlanTheNextRun) {
  const NodeSeconds cost{2e-3, 3e-3, 1e-3};
  for (Schedule schedule : {Schedule::kZbH1, Schedule::k1F1B}) {
    const PlanSet plan = plan::pipeline(schedule, 2, 4, cost);
    RankTimes times = told_by(plan, simulate(plan, CostModel()), {7, 7});
    // One forward of block1 takes 4 ms longer, in the mean of four 1 ms.
    for (std::size_t i = 0; i < plan.lists[1].size(); ++i)
      if (plan.lists[1][i].verb == plan::Verb::kForward && plan.lists[1][i].mb == 2)
        times[1][i].end += 4e-3;
    // Another takes 9 ms longer because it waits for them within, which is no cost of its node.
    for (std::size_t i = 0; i < plan.lists[1].size(); ++i)
      if (plan.lists[1][i].verb == plan::Verb::kForward && plan.lists[1][i].mb == 3) {
        times[1][i].end += 9e-3;
        times[1][i].waited = 9e-3;
      }
    const Json nodes = node_costs(plan, on_one_clock(plan, times))["nodes"];
    EXPECT_EQ(nodes.size(), plan.program.nodes.size());
    EXPECT_NEAR(nodes["block0"]["forward"], 2e-3, 1e-12);
    EXPECT_NEAR(nodes["block1"]["forward"], 3e-3, 1e-12);
    // A whole backward of 4 ms is parted as its operations are: half and half.
    const bool halves = schedule == Schedule::kZbH1;
    EXPECT_NEAR(nodes["block1"]["input"], halves ? 3e-3 : 2e-3, 1e-12);
    EXPECT_NEAR(nodes["block1"]["weight"], halves ? 1e-3 : 2e-3, 1e-12);
  }
}

// A frozen unit has no weight half, the first block nothing else.
TEST(Measured, BackwardsArePartedAsTheirOperationsAre) {
  plan::Program program =
      plan::stage_per_node(schedules::Placement::kLoop, 2, 1, NodeSeconds{1e-3, 3e-3, 1e-3});
  for (plan::Node& node : program.nodes) {
    const bool frozen = node.name == "block0";
    node.backward_flops = node.flops;
    node.split = plan::BackwardSplit{.weight_flops = frozen ? 0 : node.flops};
  }
  const PlanSet plan = plan::compile(program, mesh::Mesh({.pp = 2}), {.micro_batches = 2});
  const Json nodes = node_costs(plan, told_by(plan, simulate(plan, CostModel()), {0, 0}))["nodes"];
  EXPECT_NEAR(nodes["block0"]["input"], 4e-3, 1e-12);
  EXPECT_NEAR(nodes["block0"]["weight"], 0, 1e-12);
  EXPECT_NEAR(nodes["block1"]["input"], 0, 1e-12);
  EXPECT_NEAR(nodes["block1"]["weight"], 4e-3, 1e-12);
}

TEST(Measured, WritesTraceTimelineAndCosts) {
  const Path directory = Path(testing::TempDir()) / "trireme_timeline";
  std::filesystem::create_directories(directory);
  const PlanSet plan = plan::compile(
      plan::stage_per_node(schedules::Placement::kLoop, 2, 1, NodeSeconds{1e-3, 1e-3, 1e-3}),
      mesh::Mesh({.pp = 2, .dp_shard = 2}), {.zero = 1, .micro_batches = 2});
  const Forecast forecast = simulate(plan, CostModel());
  pictures::write_timeline(directory, plan, forecast, told_by(plan, forecast, {0, 0, 0, 0}), 12);
  const std::string picture = read_file(directory / "timeline.svg");
  EXPECT_THAT(picture, HasSubstr("step 12, measured over forecast"));
  const std::size_t measured = picture.find("rank 2 measured"),
                    planned = picture.find("rank 2 forecast");
  ASSERT_NE(planned, std::string::npos);
  EXPECT_LT(measured, planned);
  EXPECT_EQ(picture.find("rank 1 "), std::string::npos);  // as rank 0
  const Json trace = parse_json(read_file(directory / "trace.json"), "trace");
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "process_name") names.push_back(event["args"]["name"]);
  EXPECT_THAT(names, testing::ElementsAre("rank 0 measured", "rank 1 measured", "rank 2 measured",
                                          "rank 3 measured", "rank 0 forecast", "rank 2 forecast"));
  EXPECT_TRUE(
      parse_json(read_file(directory / "node_costs.json"), "costs")["nodes"].contains("stem"));
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace trireme::simulate::measured_test
