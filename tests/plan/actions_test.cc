// Lines read back as actions; refusals that show the place.
#include "trireme/plan/actions.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/plan/cases.h"
#include "tests/plan/pipelines.h"
#include "trireme/base/error.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::actions_test {
namespace {

using schedules::Grid;
using schedules::Schedule;
using testing::AllOf;
using testing::HasSubstr;

std::string verdict(const PlanSet& plan) {
  try {
    validate(plan);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Every schedule that makes a grid for the shape.
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

TEST(Actions, AreThoseThePlanWasLoweredFrom) {
  for (const auto& [p, m] : {std::pair{2, 4}, {4, 8}, {3, 7}, {4, 2}, {1, 2}})
    for (Schedule schedule : schedules_for(p, m)) {
      SCOPED_TRACE(name(schedule));
      const PlanSet plan = pipeline(schedule, p, m);
      Grid grid = schedule_grid(plan.program, plan.mesh, plan.recipe);
      if (p == 1) grid.placement = schedules::Placement::kLoop;  // both are one on one rank
      EXPECT_EQ(grid_of(plan), grid) << p << " " << m;
      EXPECT_EQ(peak_activations(plan), schedules::peak_activations(grid)) << p << " " << m;
    }
}

// A stage whose nodes split, do not split, or have nothing to give: halves are told from the lines.
TEST(Actions, HalvesAreToldWithoutTheirVerbs) {
  Program program = stage_per_node(schedules::Placement::kLoop, 2, 1);
  for (Node& node : program.nodes) node.split.reset();
  const PlanSet plan =
      compile(program, mesh::Mesh({.pp = 2}), {.micro_batches = 4, .schedule = Schedule::kZbH1});
  for (const auto& row : grid_of(plan).rows)
    for (const schedules::Action& action : row)
      EXPECT_NE(action.work, schedules::Work::kBackwardWeight);
}

TEST(ScheduleText, ShowsWhereRanksAreIdle) {
  EXPECT_EQ(schedule_text(pipeline(Schedule::kGpipe, 2, 2), 8, 110),
            "  stage 0   F0 F1 .. .. .. B0 -- B1 --\n"
            "  stage 1   .. F0 F1 B0 -- B1 -- .. ..\n");
  // Twelve ranks in five rows of 70 columns: the middle of both is left out.
  const std::string text = schedule_text(pipeline(Schedule::kZbH1, 12, 24), 5, 70);
  EXPECT_EQ(std::ranges::count(text, '\n'), 5);
  EXPECT_THAT(text, AllOf(HasSubstr("stage 0 "), HasSubstr("and 8 between"), HasSubstr("stage 11 "),
                          HasSubstr(" ... ")));
  std::size_t longest = 0, at = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    longest = std::max(longest, end - at);
  EXPECT_LE(longest, 70u);
}

// Errors that a hand-written schedule or a wrong pass would have, in plans of every shape.
class Planted : public testing::TestWithParam<Schedule> {
 protected:
  PlanSet plan_ = pipeline(GetParam(), 4, 8);

  List& list() { return plan_.lists[2]; }
  int find(Verb verb, int mb) {
    for (int i = 0; i < static_cast<int>(list().size()); ++i)
      if (line(i).verb == verb && line(i).mb == mb) return i;
    ADD_FAILURE() << "no such line";
    return 0;
  }
  Instr& line(int index) { return list()[index]; }
  // What the grid has for the forward of the rank's first chunk.
  std::string marked(int mb) const {
    return fmt::format(">{}<", action_text(grid_of(plan_), 2, {.mb = mb}));
  }
};

TEST_P(Planted, SwappedReceives) {
  // Both stand before the first forward, which now waits for the second of them.
  const int a = find(Verb::kRecv, 0), b = find(Verb::kRecv, 1);
  ASSERT_EQ(queue_of(line(a)), queue_of(line(b)));
  ASSERT_LT(b, find(Verb::kForward, 0));
  std::swap(line(a), line(b));
  line(find(Verb::kForward, 0)).after = {b};
  const std::string reason = verdict(plan_);
  EXPECT_THAT(reason, HasSubstr("deadlocks: rank 2 waits in line " + std::to_string(a)));
  EXPECT_THAT(reason, HasSubstr("where rank 1 sends line"));
  EXPECT_THAT(reason, HasSubstr("\n  rank 2:"));
  EXPECT_THAT(reason, HasSubstr(marked(1)));
  // Left waiting for the old lines, users would run too early.
  plan_ = pipeline(GetParam(), 4, 8);
  std::swap(line(a).mb, line(b).mb);
  EXPECT_THAT(verdict(plan_), AllOf(HasSubstr("rank 2, line"), HasSubstr("does not wait for line"),
                                    HasSubstr(marked(0))));
}

TEST_P(Planted, DroppedSend) {
  const int send = find(Verb::kSend, 1);
  ASSERT_EQ(line(send).peer, 3);
  list().erase(list().begin() + send);
  for (Instr& one : list()) {
    std::erase(one.after, send);
    for (int& earlier : one.after) earlier -= earlier > send;
  }
  const std::string reason = verdict(plan_);
  EXPECT_THAT(reason, HasSubstr("deadlocks: rank 3 waits in line"));
  EXPECT_THAT(reason, HasSubstr("which rank 2 never sends"));
  EXPECT_THAT(reason, HasSubstr("\n  rank 3:"));
  EXPECT_THAT(reason.substr(reason.find("\n  rank 3:")),
              HasSubstr(fmt::format(">{}<", action_text(grid_of(plan_), 3, {.mb = 1}))));
}

TEST_P(Planted, ReusedBuffer) {
  const int first = find(Verb::kRecv, 1), second = find(Verb::kRecv, 2);
  line(second).mb = 1;
  const std::string reason = verdict(plan_);
  EXPECT_THAT(reason, HasSubstr("rank 2, line " + std::to_string(second)));
  EXPECT_THAT(reason, HasSubstr("of micro-batch 1 is there since line " + std::to_string(first)));
  EXPECT_THAT(reason, AllOf(HasSubstr("\n  rank 2:"), HasSubstr(marked(1))));
}

INSTANTIATE_TEST_SUITE_P(Schedules, Planted,
                         testing::Values(Schedule::k1F1B, Schedule::kInterleaved, Schedule::kZbH1,
                                         Schedule::kZbV, Schedule::kDualPipeV),
                         [](const auto& info) {
                           const std::string text(name(info.param));
                           return text == "1f1b" ? std::string("one_f_one_b") : text;
                         });

// A plan without a pipeline has no grid to show.
TEST(Marked, RefusalsOfOneStageAreOneLine) {
  PlanSet plan = compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 3});
  plan.lists[0].front().mb = 7;
  const std::string reason = verdict(plan);
  EXPECT_THAT(reason, HasSubstr("micro-batch 7"));
  EXPECT_EQ(std::ranges::count(reason, '\n'), 0);
}

}  // namespace
}  // namespace trireme::plan::actions_test
