#include "trireme/plan/simulate/footprint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/harness/examples.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::simulate::footprint_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kLibrary = 1 << 20;

plan::PlanSet chain(const mesh::Mesh& mesh, plan::Recipe recipe = {}) {
  return plan::compile(harness::chain_example(), mesh, recipe);
}

TEST(Footprints, AreOnePerListWithItsRanks) {
  const plan::PlanSet plan = plan::compile(
      harness::tied_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}), {.micro_batches = 2});
  const std::vector<Footprint> lists = footprints(plan, kLibrary);
  ASSERT_EQ(lists.size(), 2u);
  EXPECT_THAT(lists[0].ranks, ElementsAre(0, 1));
  EXPECT_THAT(lists[1].ranks, ElementsAre(2, 3));
  for (const Footprint& one : lists) {
    EXPECT_EQ(one.account.peak_total, plan::memory_account(plan, one.ranks[0]).peak_total);
    EXPECT_EQ(one.needed(), one.account.peak_total + kLibrary);
    EXPECT_LE(one.needed(), largest(lists).needed());
  }
}

TEST(Footprints, CountWhatCheckpointsAreCopiedTo) {
  const plan::PlanSet plan = chain(mesh::Mesh({.dp_shard = 2}), {.zero = 1, .micro_batches = 2});
  std::vector<Footprint> lists = footprints(plan, kLibrary);
  const std::int64_t before = largest(lists).needed();
  EXPECT_EQ(footprint_text(plan, lists).find("snapshot"), std::string::npos);
  for (Footprint& one : lists) one.snapshot = before;
  EXPECT_EQ(largest(lists).needed(), 2 * before);
  EXPECT_THAT(footprint_text(plan, lists), HasSubstr("snapshot"));
  EXPECT_EQ(footprint_json(plan, lists)["lists"][0]["snapshot_bytes"], before);
  EXPECT_THAT(misfit(plan, lists, before).value(), HasSubstr("checkpoint.async=false would help"));
}

TEST(Footprints, CountWhatSnapshotsKeepInMemory) {
  const plan::PlanSet plan = chain(mesh::Mesh({.dp_shard = 2}), {.zero = 1, .micro_batches = 2});
  std::vector<Footprint> lists = footprints(plan, kLibrary);
  const std::int64_t before = largest(lists).needed();
  for (Footprint& one : lists) {
    one.snapshot = before;
    one.kept = 3 * before;
  }
  EXPECT_EQ(largest(lists).needed(), 5 * before);
  EXPECT_THAT(footprint_text(plan, lists), HasSubstr("kept snapshots"));
  EXPECT_EQ(footprint_json(plan, lists)["lists"][0]["kept_bytes"], 3 * before);
  EXPECT_THAT(misfit(plan, lists, before).value(), HasSubstr("checkpoint.memory_every=0"));
}

// What JSON says adds up, and the picture's highest point is the peak.
TEST(Footprints, KindsAddUpToThePeak) {
  const plan::PlanSet plan = chain(mesh::Mesh({.dp_shard = 2}), {.zero = 3, .micro_batches = 4});
  const std::vector<Footprint> lists = footprints(plan, kLibrary);
  const Json json = footprint_json(plan, lists);
  EXPECT_EQ(json["needed_bytes"], largest(lists).needed());
  for (const Json& list : json["lists"]) {
    std::int64_t at_peak = 0;
    for (const Json& kind : list["kinds"]) {
      at_peak += kind["at_peak_bytes"].get<std::int64_t>();
      EXPECT_LE(kind["at_peak_bytes"], kind["most_bytes"]);
      EXPECT_LE(kind["persistent_bytes"], kind["most_bytes"]);
    }
    EXPECT_EQ(at_peak, list["peak_total_bytes"]);
    EXPECT_EQ(list["needed_bytes"], at_peak + kLibrary);
    const auto over_step = list["over_step_bytes"].get<std::vector<std::int64_t>>();
    EXPECT_EQ(*std::ranges::max_element(over_step), at_peak);
  }
}

TEST(Footprints, TextHasEveryKindAndTheLine) {
  const plan::PlanSet plan = chain(mesh::Mesh({.dp_shard = 2}), {.zero = 1, .micro_batches = 2});
  const std::vector<Footprint> lists = footprints(plan, kLibrary);
  const std::string text = footprint_text(plan, lists);
  for (std::size_t kind = 0; kind < plan::kMemoryKinds; ++kind)
    EXPECT_EQ(text.find(plan::name(static_cast<plan::MemoryKind>(kind))) != text.npos,
              lists[0].account.peak[kind] > 0);
  EXPECT_THAT(text, HasSubstr("ranks 0-1"));
  EXPECT_THAT(text, HasSubstr(fmt::format("peak at line {} `", lists[0].account.peak_line)));
  EXPECT_THAT(text, HasSubstr("█"));
  EXPECT_THAT(text, testing::ContainsRegex("library \\(constant\\) +1.0 MiB +1.0 MiB +1.0 MiB"));
}

TEST(Misfit, IsDecidedToTheByte) {
  const plan::PlanSet plan = chain(mesh::Mesh());
  const std::vector<Footprint> lists = footprints(plan, kLibrary);
  const std::int64_t needed = largest(lists).needed();
  EXPECT_FALSE(misfit(plan, lists, needed));
  EXPECT_THAT(misfit(plan, lists, kLibrary - 1).value(),
              HasSubstr("without any tensor it is 1.0 MiB"));
  ASSERT_TRUE(misfit(plan, lists, needed - 1));
  EXPECT_EQ(misfit(plan, lists, needed - 1)->find('\n'), std::string::npos);
}

// The bound decides; what is expected stands with it.
TEST(Misfit, IsOfTheBoundWhereRowsVary) {
  const plan::PlanSet plan = chain(mesh::Mesh());
  std::vector<Footprint> lists = footprints(plan, kLibrary);
  EXPECT_THAT(footprint_text(plan, lists), testing::Not(HasSubstr("expected")));
  const std::int64_t bound = largest(lists).needed();
  lists[0].expected_peak = lists[0].account.peak_of_tensors() / 2;
  EXPECT_EQ(largest(lists).needed(), bound);
  EXPECT_FALSE(misfit(plan, lists, bound));
  EXPECT_THAT(misfit(plan, lists, bound - 1).value(), HasSubstr("needs at most"));
  EXPECT_THAT(misfit(plan, lists, bound - 1).value(), HasSubstr(" expected)"));
  EXPECT_THAT(footprint_text(plan, lists), HasSubstr("\n  expected "));
  EXPECT_EQ(footprint_json(plan, lists)["lists"][0]["expected_bytes"], lists[0].expected());
}

// The advice is about the kind that takes most, and what it names makes that kind smaller.
TEST(Misfit, NamesWhatWouldHelp) {
  plan::Program wide = harness::chain_example();
  for (plan::Unit& unit : wide.units) unit.numel = 1 << 20;
  const auto line = [](const plan::Program& program, const plan::Recipe& recipe) {
    const plan::PlanSet plan = plan::compile(program, mesh::Mesh({.dp_shard = 4}), recipe);
    return misfit(plan, footprints(plan, 0), 1000).value_or("");
  };
  EXPECT_THAT(line(wide, {.zero = 0}),
              testing::ContainsRegex("kind is optimizer with [0-9.]+ .iB: parallel.zero=1, or "
                                     "offload.optimizer=nvme would help"));
  EXPECT_THAT(line(wide, {.zero = 1}),
              testing::ContainsRegex("kind is gradients with [0-9.]+ .iB: parallel.zero=2, or "
                                     "offload.grads=nvme would help"));
  EXPECT_THAT(line(wide, {.zero = 1, .micro_batches = 8}),
              testing::ContainsRegex("kind is gradients with [0-9.]+ .iB: precision.group=8, "
                                     "or parallel.zero=2, or offload.grads=nvme would help"));
  EXPECT_THAT(line(wide, {.zero = 2}),
              testing::ContainsRegex("kind is params with [0-9.]+ .iB: parallel.zero=3, or "
                                     "offload.params=nvme would help"));
  // What is done already is no advice.
  EXPECT_THAT(line(wide, {.zero = 2, .offload = {.params = plan::Tier::kHost, .prefetch = 0}}),
              testing::Not(HasSubstr("offload.p")));

  plan::Program deep = harness::chain_example();
  for (plan::Node& node : deep.nodes) node.saved_bytes = 1 << 26;
  EXPECT_THAT(line(deep, {}),
              testing::ContainsRegex(
                  "kind is activations with [0-9.]+ .iB: recompute.policy=full, or a smaller"));
  for (plan::Node& node : deep.nodes) node.work.backward = 1 << 29;
  EXPECT_THAT(line(deep, {}),
              testing::ContainsRegex("kind is work with [0-9.]+ .iB: a smaller run.micro_batch"));
  plan::Node& head = deep.nodes.back();
  head.parts = {{.name = "logits", .saved_bytes = 1}};
  EXPECT_THAT(line(deep, {}), HasSubstr("iB: recompute.logits=true, a smaller"));
  head.parts[0].recomputed = true;
  EXPECT_THAT(line(deep, {}), HasSubstr("iB: a smaller run.micro_batch"));
}

// On a GPU, what waits in host memory is elsewhere.
TEST(Footprints, HostMemoryOfAGpuStandsBesideTheRest) {
  plan::Program wide = harness::chain_example();
  for (plan::Unit& unit : wide.units) unit.numel = 1 << 20;
  const plan::PlanSet plan =
      plan::compile(wide, mesh::Mesh(), {.zero = 0, .offload = {.optimizer = plan::Tier::kHost}});
  const std::vector<Footprint> lists = footprints(plan, 0, /*host=*/false);
  const Footprint& one = lists.front();
  const Json list = footprint_json(plan, lists)["lists"][0];
  std::int64_t at_peak = 0;
  for (const Json& kind : list["kinds"]) at_peak += kind["at_peak_bytes"].get<std::int64_t>();
  EXPECT_EQ(at_peak, one.needed());
  EXPECT_EQ(list["peak_total_bytes"], one.needed());
  EXPECT_EQ(list["kinds"]["host"]["counts"], false);
  EXPECT_GT(list["kinds"]["host"]["most_bytes"], 0);
  const auto over_step = list["over_step_bytes"].get<std::vector<std::int64_t>>();
  EXPECT_EQ(*std::ranges::max_element(over_step), one.needed());

  const std::string text = footprint_text(plan, lists);
  EXPECT_THAT(text, testing::Not(HasSubstr("  host ")));
  EXPECT_LT(text.find("needed  "), text.find("in host memory"));
  EXPECT_THAT(text, HasSubstr("█"));
  EXPECT_THAT(misfit(plan, lists, 1000).value(), testing::Not(HasSubstr("kind is host")));
  EXPECT_THAT(misfit(plan, footprints(plan, 0), 1000).value(), HasSubstr("kind is host"));
}

}  // namespace
}  // namespace trireme::simulate::footprint_test
