// From jobs to stages, chunks and grids: what every key of a pipeline changes, and what is refused.
#include "trireme/model/layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/schedules/csv.h"

namespace trireme::model::layout_test {
namespace {

using formats::Scratch;
using testing::ElementsAre;
using testing::HasSubstr;
using Sets = std::vector<std::string>;

config::Job job(const Sets& sets) {
  config::Job job;
  for (const char* set :
       {"model.layers=6", "run.global_batch=16", "run.micro_batch=1", "parallel.dp_shard=1"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, job.parallel.pp, {.vocab = 256});
}

plan::PlanSet plan_of(const Sets& sets) {
  const config::Job resolved = job(sets);
  const ModelSpec model = describe(resolved);
  plan::PlanSet plan = plan::compile(model.program, mesh_of(resolved), recipe_of(resolved),
                                     grid_of(resolved, model));
  plan::validate(plan);
  return plan;
}

std::vector<std::pair<int, int>> places(const plan::PlanSet& plan) {
  std::vector<std::pair<int, int>> all;
  for (const plan::Node& node : plan.program.nodes) all.emplace_back(node.stage, node.chunk);
  return all;
}

std::string refusal(const Sets& sets, ErrorKind kind) {
  try {
    plan_of(sets);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind);
    return error.what();
  }
  return "";
}

TEST(Layout, OffloadKeysChangeThePlan) {
  const Sets plain = {"recompute.policy=full"};
  const auto digest = [&](Sets sets) {
    sets.insert(sets.begin(), plain.begin(), plain.end());
    return plan::digest(plan_of(sets));
  };
  const std::uint64_t none = digest({});
  for (const char* key : {"optimizer", "params", "grads", "activations"})
    for (const char* tier : {"host", "nvme"})
      EXPECT_NE(digest({fmt::format("offload.{}={}", key, tier)}), none) << key << " " << tier;
  const std::uint64_t optimizer = digest({"offload.optimizer=nvme"});
  EXPECT_NE(digest({"offload.optimizer=nvme:0.5"}), optimizer);
}

TEST(Layout, JobsKnowEverySchedule) {
  std::vector<std::string> names;
  for (int i = 0; i < schedules::kScheduleCount; ++i)
    names.emplace_back(schedules::name(static_cast<schedules::Schedule>(i)));
  EXPECT_EQ(config::find_field("parallel.schedule")->choices, names);
  for (const std::string& name : names) {
    const plan::PlanSet plan = plan_of({"parallel.pp=2", "parallel.schedule=" + name});
    EXPECT_EQ(schedules::name(plan.recipe.schedule), name);
  }
}

TEST(Layout, VirtualStagesAreChunks) {
  const plan::PlanSet plan =
      plan_of({"parallel.pp=2", "parallel.schedule=interleaved", "parallel.virtual_stages=3"});
  EXPECT_EQ(plan::chunk_count(plan.program), 3);
  EXPECT_THAT(refusal({"parallel.pp=2", "parallel.virtual_stages=2"}, ErrorKind::kUsage),
              HasSubstr("virtual stage"));
  EXPECT_THAT(
      refusal({"parallel.pp=4", "parallel.schedule=interleaved", "parallel.virtual_stages=4"},
              ErrorKind::kUsage),
      HasSubstr("take 8 or fewer"));
}

TEST(Layout, StagesByHand) {
  EXPECT_THAT(places(plan_of({"parallel.pp=2", "parallel.stages=1,7"})),
              ElementsAre(std::pair(0, 0), std::pair(1, 0), std::pair(1, 0), std::pair(1, 0),
                          std::pair(1, 0), std::pair(1, 0), std::pair(1, 0), std::pair(1, 0)));
  for (const char* wrong : {"1,2", "8", "4,4,0", "a", "4;4", "4,", ",4", "-1,9", "99999999999,1"})
    EXPECT_THAT(
        refusal({"parallel.pp=2", std::string("parallel.stages=") + wrong}, ErrorKind::kUsage),
        HasSubstr("stage"))
        << wrong;
}

TEST(Layout, MeasuredCostsMoveTheCuts) {
  const Scratch scratch;
  std::string nodes;
  for (const char* name :
       {"embed", "block.0", "block.1", "block.2", "block.3", "block.4", "block.5", "head"}) {
    const double seconds = std::string(name) == "block.0" ? 100 : 1;
    nodes += fmt::format("{}\"{}\": {{\"forward\": {}, \"input\": 1, \"weight\": 1}}",
                         nodes.empty() ? "" : ", ", name, seconds);
  }
  const Path file = scratch.write("node_costs.json", "{\"nodes\": {" + nodes + "}}");
  const std::string costs = "parallel.costs=" + file.string();
  const auto cut = places(plan_of({"parallel.pp=2", costs}));
  EXPECT_EQ(std::ranges::count(cut, std::pair(0, 0)), 2);
  const Path other = scratch.write("other.json", "{\"nodes\": {\"embed\": {\"forward\": 1}}}");
  EXPECT_THAT(refusal({"parallel.costs=" + other.string()}, ErrorKind::kData),
              HasSubstr("no input of node embed"));
  EXPECT_THAT(
      refusal({"parallel.costs=" + scratch.write("bad.json", "[1").string()}, ErrorKind::kData),
      HasSubstr("bad.json"));
  EXPECT_NE(refusal({"parallel.costs=/nonexistent"}, ErrorKind::kData), "");
}

TEST(Layout, SearchedSchedulesGoByMemoryAndTransfers) {
  const auto lists = [](const char* schedule) {
    return plan_of({"parallel.pp=4", schedule}).lists;
  };
  EXPECT_NE(lists("parallel.schedule=zb_auto:2"), lists("parallel.schedule=zb_auto"));
}

TEST(Layout, SchedulesFromFiles) {
  const Scratch scratch;
  const schedules::Grid grid = schedules::make_grid(schedules::Schedule::kZbV,
                                                    {.ranks = 2, .chunks = 2, .micro_batches = 16});
  const std::string file =
      "parallel.schedule=" + scratch.write("zb_v.csv", schedules::compute_csv(grid)).string();
  const plan::PlanSet given = plan_of({"parallel.pp=2", file});
  EXPECT_EQ(given.recipe.schedule, schedules::Schedule::kGiven);
  EXPECT_EQ(plan::parse(plan::print(given)), given);
  EXPECT_EQ(plan::chunk_count(given.program), 2);
  EXPECT_THAT(refusal({"parallel.pp=3", file}, ErrorKind::kUsage), HasSubstr("2 ranks"));
  EXPECT_THAT(refusal({"parallel.pp=2", "run.global_batch=8", file}, ErrorKind::kUsage),
              HasSubstr("16 micro-batches"));
  EXPECT_THAT(refusal({"parallel.pp=2",
                       "parallel.schedule=" + scratch.write("bad.csv", "0F0,oops\n").string()},
                      ErrorKind::kData),
              HasSubstr("bad.csv"));
}

}  // namespace
}  // namespace trireme::model::layout_test
