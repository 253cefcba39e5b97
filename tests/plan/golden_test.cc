// Plan texts under review: a change of a pass shows as a diff of tests/golden. TRIREME_UPDATE_GOLDEN=1
// writes them anew.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/harness/examples.h"
#include "tests/harness/recompute_whole.h"
#include "trireme/base/fs.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::plan::golden_test {
namespace {

void expect_golden(const std::string& name, const PlanSet& plan) {
  SCOPED_TRACE(name);
  validate(plan);
  const Path path = Path(TRIREME_SOURCE_DIR) / "tests" / "golden" / (name + ".plan");
  if (std::getenv("TRIREME_UPDATE_GOLDEN") != nullptr) replace_file(path, print(plan));
  const std::string golden = read_file(path);
  EXPECT_EQ(print(plan), golden);
  EXPECT_EQ(parse(golden), plan);
}

TEST(Golden, EveryRowOfTheLifetimeTable) {
  for (int zero : {0, 1, 2, 3})
    expect_golden("chain_zero" + std::to_string(zero),
                  compile(harness::chain_example(), mesh::Mesh({.dp_shard = 4}),
                          {.zero = zero, .micro_batches = 2}));
}

TEST(Golden, Hybrid) {
  expect_golden("chain_hsdp",
                compile(harness::chain_example(), mesh::Mesh({.dp_replicate = 2, .dp_shard = 2}),
                        {.zero = 3, .micro_batches = 1}));
}

TEST(Golden, TensorAndContextRanks) {
  for (int zero : {1, 3})
    expect_golden(
        "spread_zero" + std::to_string(zero),
        compile(harness::spread_example(), mesh::Mesh({.dp_replicate = 2, .cp = 2, .tp = 2}),
                {.zero = zero, .micro_batches = 2}));
}

TEST(Golden, RecomputeInBf16) {
  expect_golden("chain_recompute",
                compile(recompute_whole(harness::chain_example()), mesh::Mesh({.dp_shard = 2}),
                        {.zero = 3, .prefetch = 2, .compute = DType::kBF16}));
}

// Inner values live twice, those that enter or leave a segment once.
TEST(Golden, SegmentsOfTwoWithSkips) {
  expect_golden("encoder_decoder_segments",
                compile(recompute_whole(harness::encoder_decoder_example(1), 2), mesh::Mesh(), {}));
}

TEST(Golden, TiedWeightsOnTwoStages) {
  expect_golden("tied_two_stages",
                compile(harness::tied_example(2), mesh::Mesh({.pp = 2, .dp_shard = 2}),
                        {.zero = 1, .micro_batches = 2, .schedule = schedules::Schedule::kGpipe}));
}

TEST(Golden, VisionLanguageModel) {
  expect_golden("vision_language",
                compile(harness::vision_language_example(), mesh::Mesh({.dp_shard = 2}),
                        {.zero = 2, .micro_batches = 1}));
}

TEST(Golden, JointEmbedding) {
  expect_golden("jepa", compile(harness::jepa_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 2}));
}

// What GradCache is: features of all micro-batches, one loss, and each micro-batch again.
TEST(Golden, JointLoss) {
  expect_golden("two_towers",
                compile(recompute_whole(harness::two_towers_example()), mesh::Mesh({.dp_shard = 2}),
                        {.zero = 3, .micro_batches = 2, .schedule = schedules::Schedule::kGpipe}));
}

TEST(Golden, JointLossOnTheSecondStage) {
  expect_golden("two_towers_two_stages",
                compile(harness::two_towers_example(2), mesh::Mesh({.pp = 2}),
                        {.micro_batches = 2, .schedule = schedules::Schedule::kGpipe}));
}

TEST(Golden, SkipsAcrossTwoStages) {
  expect_golden("encoder_decoder_two_stages",
                compile(harness::encoder_decoder_example(2), mesh::Mesh({.pp = 2}),
                        {.micro_batches = 2, .schedule = schedules::Schedule::kGpipe}));
}

TEST(Golden, EverythingAway) {
  const Offload offload{.optimizer = Tier::kNvme,
                        .params = Tier::kNvme,
                        .grads = Tier::kNvme,
                        .activations = Tier::kNvme};
  expect_golden("chain_offload",
                compile(recompute_whole(harness::chain_example()), mesh::Mesh(),
                        {.micro_batches = 2, .compute = DType::kBF16, .offload = offload}));
}

TEST(Golden, StatesAwayFromShards) {
  expect_golden("chain_offload_zero3",
                compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}),
                        {.zero = 3, .offload = {.optimizer = Tier::kHost, .params = Tier::kNvme}}));
}

// The example of docs/plan.md is a plan of today.
TEST(Golden, TheManualsExample) {
  const std::string manual = read_file(Path(TRIREME_SOURCE_DIR) / "docs" / "plan.md");
  const std::string fence = "```plan\n";
  const std::size_t begin = manual.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t end = manual.find("```", begin + fence.size());
  ASSERT_NE(end, std::string::npos);
  const PlanSet plan = compile(harness::chain_example(1), mesh::Mesh({.dp_shard = 2}), {.zero = 1});
  EXPECT_EQ(manual.substr(begin + fence.size(), end - begin - fence.size()), print(plan));
  EXPECT_NO_THROW(validate(plan));
}

}  // namespace
}  // namespace trireme::plan::golden_test
