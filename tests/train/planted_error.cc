// Built with an error in row-parallel layers: tensor rank 1 scales the gradient of its bias by 1.5. Comparisons name
// that parameter, at its gradient, before anything else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/family_jobs.h"
#include "tests/harness/recordings.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/train/recording/compare.h"

namespace trireme::train {
namespace {

using ::testing::Each;
using ::testing::EndsWith;
using ::testing::SizeIs;

std::vector<Comparison> beyond(const config::Job& job, const std::string& layout) {
  std::vector<Comparison> rows =
      compare(harness::record_layout(job, ""), harness::record_layout(job, layout));
  const double tolerance = default_tolerance(job.precision.compute);
  std::erase_if(rows, [&](const Comparison& row) { return row.relative <= tolerance; });
  return rows;
}

std::vector<std::string> gradients_of_the_first_step(const std::vector<Comparison>& rows) {
  std::vector<std::string> names;
  for (const Comparison& row : rows)
    if (row.step == 0 && row.kind == Kind::kGradient) names.push_back(row.name);
  return names;
}

class Planted : public testing::TestWithParam<DType> {};

TEST_P(Planted, SharesOfAGradientPartFirstAtItsParameter) {
  const config::Job job = harness::tiny_job(config::Family::kGpt, GetParam());
  for (const char* layout : {"tp=2", "tp=2,cp=2", "tp=2,dp_shard=2,zero=3"}) {
    const std::vector<Comparison> rows = beyond(job, layout);
    ASSERT_FALSE(rows.empty()) << layout;
    EXPECT_EQ(rows[0].step, 0);
    EXPECT_EQ(rows[0].kind, Kind::kGradient);
    EXPECT_THAT(rows[0].name, EndsWith("h.0.attn.c_proj.bias")) << layout;
    EXPECT_GT(rows[0].relative, 0.1);
    EXPECT_THAT(gradients_of_the_first_step(rows),
                SizeIs(static_cast<std::size_t>(job.model.layers)));
    EXPECT_THAT(gradients_of_the_first_step(rows), Each(EndsWith("attn.c_proj.bias")));
  }
}

TEST_P(Planted, ARankUnlikeItsPeersIsNamed) {
  const config::Job job = harness::tiny_job(config::Family::kGpt, GetParam());
  const std::vector<Comparison> rows = beyond(job, "tp=2,sequence_parallel=false");
  ASSERT_FALSE(rows.empty());
  EXPECT_EQ(rows[0].step, 0);
  EXPECT_EQ(rows[0].kind, Kind::kGradient);
  EXPECT_THAT(rows[0].name, EndsWith("h.0.attn.c_proj.bias"));
  EXPECT_EQ(rows[0].rank, 1);
  EXPECT_EQ(rows[0].peer, 0);
  EXPECT_FALSE(rows[0].first_run);
  EXPECT_NEAR(rows[0].b, 1.5 * rows[0].a, 0.1 * std::abs(rows[0].a));
  EXPECT_NEAR(rows[0].relative, 0.5, 0.05);
}

TEST_P(Planted, LayoutsWithoutTensorRanksAgree) {
  const config::Job job = harness::tiny_job(config::Family::kGpt, GetParam());
  EXPECT_THAT(beyond(job, "dp_shard=2,cp=2"), SizeIs(0));
}

// Every family whose layers end in a row-parallel bias that trains, and the first one's name.
TEST(PlantedFamilies, TheFirstParameterIsNamed) {
  const std::vector<std::pair<config::Job, std::string>> families = {
      {harness::vjepa_job(config::Family::kJepa), "encoder.blocks.0.attn.proj.bias"},
      {harness::vjepa_job(config::Family::kHvjepa), "encoder.blocks.0.attn.proj.bias"},
      {harness::vjepa_job(config::Family::kProbe), "pooler.blocks.0.attn.proj.bias"},
      {harness::vjepa_job(config::Family::kJepaAc),
       "action_predictor.predictor_blocks.0.attn.proj.bias"},
      {harness::vit_job(), "blocks.0.attn.proj.bias"},
      {harness::clip_job(), "visual.blocks.0.attn.proj.bias"},
      {harness::vlm_job(), "vision_tower.blocks.0.attn.proj.bias"},
      {harness::arrcoc_job(), "vision_tower.blocks.0.attn.proj.bias"}};
  for (const auto& [job, name] : families) {
    SCOPED_TRACE(name);
    const std::vector<Comparison> rows = beyond(job, "tp=2");
    ASSERT_FALSE(rows.empty());
    EXPECT_EQ(rows[0].step, 0);
    EXPECT_EQ(rows[0].kind, Kind::kGradient);
    EXPECT_EQ(rows[0].name, name);
    EXPECT_EQ(rows[0].rank, 1);
    EXPECT_EQ(rows[0].peer, 0);
    EXPECT_THAT(beyond(job, "dp_shard=2"), SizeIs(0));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Planted, testing::Values(DType::kF64, DType::kF32, DType::kBF16),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace trireme::train
