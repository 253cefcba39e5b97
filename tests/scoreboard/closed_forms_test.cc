#include "bench/scoreboard/closed_forms.h"

#include <gtest/gtest.h>

namespace trireme::scoreboard::closed_forms_test {
namespace {

// Narayanan et al. 2021, table 1: billions of parameters.
TEST(ClosedForms, CountTheParametersOfMegatronsModels) {
  EXPECT_NEAR(gpt_parameters({24, 2304, 24, 2048, 51200}), 1.65e9, 0.01e9);
  EXPECT_NEAR(gpt_parameters({36, 4096, 32, 2048, 51200}), 7.47e9, 0.01e9);
  EXPECT_NEAR(gpt_parameters({40, 6144, 48, 2048, 51200}), 18.45e9, 0.01e9);
}

// The same table: operations of a step.
TEST(ClosedForms, CountTheOperationsOfMegatronsSteps) {
  EXPECT_NEAR(gpt_full_flops({24, 2304, 24, 2048, 51200}, 512), 1.5467e16, 1e12);
  EXPECT_NEAR(gpt_full_flops({36, 4096, 32, 2048, 51200}, 512), 6.7185e16, 1e12);
}

// Korthikanti et al. 2022, table 5: 22B, 1.10 s on 8 A100 of 312 TFLOP/s; MFU 41.5 %, HFU 43.7 %.
TEST(ClosedForms, GiveThePrintedUtilization) {
  const GptShape gpt{48, 6144, 64, 2048, 51200};
  const double seconds_of_peak = 1.10 * 8 * 312e12;
  EXPECT_NEAR(100 * gpt_model_flops(gpt, 4) / seconds_of_peak, 41.5, 0.2);
  EXPECT_NEAR(100 * gpt_selective_flops(gpt, 4) / seconds_of_peak, 43.7, 0.2);
}

// Korthikanti et al. 2022, table 2, by hand: s b h = 8, 5as/h = 20.
TEST(ClosedForms, KeepActivationsPerTable2) {
  const GptShape gpt{.layers = 1, .hidden = 2, .heads = 2, .sequence = 4};
  EXPECT_EQ(block_activations(gpt, 1, 1, false, Kept::kAll), 8 * (34 + 20));
  EXPECT_EQ(block_activations(gpt, 1, 2, false, Kept::kAll), 8 * (10 + 12 + 10));
  EXPECT_EQ(block_activations(gpt, 1, 2, true, Kept::kAll), 8 * (34 + 20) / 2);
  EXPECT_EQ(block_activations(gpt, 1, 2, false, Kept::kSelective), 8 * (10 + 12));
  EXPECT_EQ(block_activations(gpt, 1, 2, true, Kept::kSelective), 8 * 34 / 2);
  EXPECT_EQ(block_activations(gpt, 1, 2, true, Kept::kInput), 2 * 8);
  EXPECT_EQ(first_rank_share(8, 1), 1);
  EXPECT_EQ(first_rank_share(8, 3), 1 + 7.0 / 24);
}

// Rajbhandari et al. 2020, figure 1: 7.5B on 64 ranks, in GB.
TEST(ClosedForms, ShardModelStates) {
  EXPECT_EQ(zero_model_states(7.5, 0, 64), 120);
  EXPECT_NEAR(zero_model_states(7.5, 1, 64), 31.4, 0.05);
  EXPECT_NEAR(zero_model_states(7.5, 2, 64), 16.6, 0.05);
  EXPECT_NEAR(zero_model_states(7.5, 3, 64), 1.9, 0.05);
  EXPECT_EQ(zero_traffic(1), 2);
  EXPECT_EQ(zero_traffic(3) / zero_pp_traffic(), 4);
}

// Li et al. 2023, arXiv 2310.03294: 8 ranks take 4.5 of 32 blocks one after the other, of 7 none waits in the end.
TEST(ClosedForms, RanksThatHelpEachOther) {
  EXPECT_DOUBLE_EQ(helped_ring_speedup(8), 64 / 9.0);
  EXPECT_DOUBLE_EQ(helped_ring_speedup(7), 7);
}

}  // namespace
}  // namespace trireme::scoreboard::closed_forms_test
