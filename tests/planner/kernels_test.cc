#include "trireme/planner/cost/kernels.h"

#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"

namespace trireme::planner::kernels_test {
namespace {

// One unit that multiplies 1e12 times a second, and memory of 1e11 bytes a second.
Gpu machine() {
  Gpu gpu{.name = "one", .half_flops = 1e12, .fp32_flops = 5e11, .memory_rate = 1e11, .units = 1};
  gpu.efficiency = {.gemm = 0.5,
                    .crosswise = 0.5,
                    .depth = 24,
                    .memory = 0.5,
                    .attention = 0.5,
                    .tile = 0.2,
                    .misaligned = 0.25,
                    .shared = 1,
                    .kernel_s = 1e-6,
                    .blocked_s = 0};
  return gpu;
}

TEST(Kernels, StreamsAtTheMemorysRate) {
  EXPECT_DOUBLE_EQ(seconds(machine(), stream(1e6)), 1e6 / 5e10 + 1e-6);
  EXPECT_DOUBLE_EQ(seconds(machine(), stream(1e6, 4)), 1e6 / 5e10 + 4e-6);
}

// Four heads of 8: of 16 tokens all 16 x 16 scores of 6 sequences, of 256 five eighths of them, in four blocks of queries.
TEST(Kernels, AttentionOfCoresBeginsAnewForEveryHeadSequenceAndBlock) {
  const Kernel brief = tiled_attention(Math::kFp32, 6 * 16, 16, 4, 8, true);
  EXPECT_DOUBLE_EQ(brief.flops, 4.0 * 6 * 16 * 16 * 4 * 8);
  EXPECT_DOUBLE_EQ(brief.begun, 6 * 4);
  const Kernel blocks = tiled_attention(Math::kFp32, 256, 256, 4, 8, true);
  EXPECT_DOUBLE_EQ(blocks.flops, 4.0 * 256 * 256 * 4 * 8 * 0.625);
  EXPECT_DOUBLE_EQ(blocks.begun, 4 * 4);
  EXPECT_DOUBLE_EQ(tiled_attention(Math::kFp32, 256, 256, 4, 8, false).flops,
                   4.0 * 256 * 256 * 4 * 8);
  Gpu core{.name = "core", .half_flops = 1, .fp32_flops = 1};
  core.core = Core{.fp32 = {.attention = 1e9, .attention_s = 1e-6, .kernel_s = 1e-5}};
  EXPECT_DOUBLE_EQ(seconds(core, brief), brief.flops / 1e9 + 24e-6 + 1e-5);
  EXPECT_DOUBLE_EQ(seconds(core, times(brief, 2.5)), 2.5 * (brief.flops / 1e9 + 24e-6) + 1e-5);
}

TEST(Kernels, AProductTakesItsTilesDepthAndAll) {
  const double tile = 2.0 * 256 * 128 * (1000 + 24) / 5e11;
  EXPECT_DOUBLE_EQ(seconds(machine(), gemm(Math::kHalf, 256, 128, 1000)), tile + 1e-6);
  EXPECT_DOUBLE_EQ(seconds(machine(), gemm(Math::kHalf, 512, 128, 1000)), 2 * tile + 1e-6);
}

TEST(Kernels, AWaveThatIsHalfEmptyTakesAsLong) {
  Gpu gpu = machine();
  gpu.units = 2;
  gpu.efficiency.tile = 0.5;  // smaller tiles do not pay
  const double three = seconds(gpu, gemm(Math::kHalf, 3 * 256, 128, 1000));
  EXPECT_DOUBLE_EQ(three, seconds(gpu, gemm(Math::kHalf, 4 * 256, 128, 1000)));
  EXPECT_GT(three, 1.4 * seconds(gpu, gemm(Math::kHalf, 2 * 256, 128, 1000)));
}

TEST(Kernels, SmallerTilesAreTakenWhereTheyWasteLess) {
  Gpu gpu = machine();
  gpu.units = 8;
  const double one_large = 2.0 * 256 * 128 * (1000 + 24) / (5e11 / 8) + 1e-6;
  EXPECT_LT(seconds(gpu, gemm(Math::kHalf, 256, 128, 1000)), 0.6 * one_large);
}

TEST(Kernels, NoProductIsFasterThanItsOperandsMove) {
  const double bytes = 2.0 * (1024 * 8 + 8 * 1024 + 1024 * 1024);
  EXPECT_GE(seconds(machine(), gemm(Math::kHalf, 1024, 1024, 8)), bytes / 5e10);
}

TEST(Kernels, RowsThatAreNoMultipleOf16BytesAreSlow) {
  const double aligned = seconds(machine(), gemm(Math::kHalf, 256, 128, 112)) - 1e-6;
  const double not_aligned = seconds(machine(), gemm(Math::kHalf, 256, 128, 108)) - 1e-6;
  EXPECT_NEAR(not_aligned / aligned, (108.0 + 24) / (112 + 24) / 0.25, 1e-9);
  EXPECT_DOUBLE_EQ(seconds(machine(), gemm(Math::kFp32, 256, 128, 108)) - 1e-6,
                   2.0 * 256 * 128 * (108 + 24) / 2.5e11);
}

TEST(Kernels, SumsOverRowsHaveARateOfTheirOwn) {
  Kernel across = gemm(Math::kHalf, 256, 128, 1000);
  const double along = seconds(machine(), across) - 1e-6;
  across.crosswise = true;
  EXPECT_NEAR(seconds(machine(), across) - 1e-6, 2 * along, 1e-12);
}

TEST(Kernels, ATypeThatAProcessorLacksIsRefused) {
  EXPECT_EQ(
      formats::refusal([] { seconds(machine(), gemm(Math::kFp8, 1, 1, 1)); }, ErrorKind::kUsage),
      "gpu one has no fp8 rate; choose another precision or gpu");
}

}  // namespace
}  // namespace trireme::planner::kernels_test
