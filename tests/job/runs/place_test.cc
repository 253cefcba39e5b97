// The place of a process by flags and by the variables of launchers.
#include "trireme/job/runs/place.h"

#include <gmock/gmock.h>

#include <map>

#include "tests/config/error_of.h"

namespace trireme::runs::place_test {
namespace {

using ::testing::HasSubstr;

using Values = std::map<std::string, std::string>;

Variables of(Values values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Place, IsThatOfFlagsElseOfALauncherElseAlone) {
  EXPECT_EQ(describe(find_place(of({}), {}, {})), "1 rank");
  EXPECT_EQ(describe(find_place(of({}), 1, {})), "1 rank");
  EXPECT_EQ(describe(find_place(of({}), 2, {})), "2 ranks as threads (--ranks)");
  EXPECT_EQ(find_place(of({}), 4, {}).world, 4);
  EXPECT_FALSE(find_place(of({}), 4, {}).launched());
  EXPECT_EQ(find_place(of({}), {}, 2).launcher, Launcher::kProcesses);
  const Values torchrun = {{"RANK", "1"},           {"WORLD_SIZE", "2"},
                           {"LOCAL_RANK", "1"},     {"MASTER_PORT", "7"},
                           {"MASTER_ADDR", "head"}, {"LOCAL_WORLD_SIZE", "2"}};
  const Place place = find_place(of(torchrun), {}, {});
  EXPECT_EQ(place.launcher, Launcher::kTorchrun);
  EXPECT_TRUE(place.launched());
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.address, "head");
  EXPECT_EQ(place.port, 7);
  EXPECT_THAT(config::usage_error_of([&] { find_place(of(torchrun), 2, {}); }),
              HasSubstr("already rank 1 of 2"));
}

TEST(Place, RefusesFlagsThatExcludeEachOtherAndBrokenVariables) {
  const auto refusal = [](const Values& values, std::optional<int> ranks,
                          std::optional<int> nproc) {
    return config::usage_error_of([&] { find_place(of(values), ranks, nproc); });
  };
  EXPECT_THAT(refusal({}, 2, 2), HasSubstr("exclude each other"));
  EXPECT_THAT(refusal({}, 0, {}), HasSubstr("--ranks 0; needs 1 to 1024"));
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {}, {}), HasSubstr("RANK=\"2\""));
  EXPECT_THAT(refusal({{"RANK", "0"}}, {}, {}), HasSubstr("WORLD_SIZE is not set"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}, {}, {}), HasSubstr("MASTER_ADDR"));
}

TEST(Place, NodesAreThoseOfSlurm) {
  const Nodes nodes = find_nodes(of({{"SLURM_STEP_NUM_TASKS", "2"},
                                     {"SLURM_PROCID", "1"},
                                     {"SLURM_NODEID", "1"},
                                     {"SLURM_NNODES", "2"},
                                     {"SLURM_JOB_ID", "123"},
                                     {"SLURM_STEP_NODELIST", "n[01-02]"}}));
  EXPECT_EQ(nodes.rank, 1);
  EXPECT_EQ(nodes.count, 2);
  EXPECT_EQ(nodes.endpoint, "n01:15123");
  EXPECT_EQ(nodes.run_id, "123");
}

TEST(Place, SlurmLists) {
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 0), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 2), 2);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 3), 1);
  EXPECT_EQ(slurm_tasks_on_node("2(x3),1", 4), 0);
  EXPECT_EQ(slurm_tasks_on_node("4", 0), 4);
  EXPECT_EQ(slurm_tasks_on_node("", 0), 0);
  EXPECT_EQ(slurm_tasks_on_node("2(xx)", 0), 0);
  EXPECT_EQ(slurm_first_host("n[01-04,7],m"), "n01");
  EXPECT_EQ(slurm_first_host("alpha,beta[1-2]"), "alpha");
  EXPECT_EQ(slurm_first_host("a-b[7,9]"), "a-b7");
  EXPECT_EQ(slurm_first_host("solo"), "solo");
  EXPECT_EQ(slurm_first_host(""), "");
}

}  // namespace
}  // namespace trireme::runs::place_test
