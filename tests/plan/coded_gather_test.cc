// Plans of coded gathers: which lines send what, and what recipes are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <utility>

#include "tests/plan/coded_plans.h"
#include "tests/plan/mutations.h"
#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/text/draw.h"
#include "trireme/plan/text/text.h"

namespace trireme::plan::coded_gather_test {
namespace {

using testing::HasSubstr;

// The first gather of a step is among all shards, later ones among the neighbours that keep its codes.
TEST(CodedGather, LaterGathersOfAStepAreAmongNeighbours) {
  const PlanSet plan = gathered_plan(4, 4);
  ASSERT_EQ(refusal(plan), "");
  EXPECT_EQ(parse(print(plan)), plan);
  std::map<UnitId, int> gathers, later;
  for_each_line(plan, [&](std::size_t l, std::size_t i) {
    const Instr& line = plan.lists[l][i];
    if (line.verb != Verb::kUnshard) return;
    EXPECT_TRUE(line.coded);
    EXPECT_EQ(line.within, ++gathers[line.unit] == 1 ? 0 : 2);
    later[line.unit] += line.within > 0;
    PlanSet other = plan;
    other.lists[l][i].within = line.within > 0 ? 0 : 2;
    EXPECT_THAT(refusal(other), HasSubstr(line.within > 0 ? "codes are kept since the first gather"
                                                          : "no codes are kept"));
  });
  for (const auto& [unit, count] : gathers) EXPECT_EQ(later[unit], count - 1);
  PlanSet other = plan;
  other.recipe.gather->within = 3;
  EXPECT_THAT(refusal(other), HasSubstr("a divisor of the shards"));
  other = plan;
  other.recipe.coded->senders = 3;
  EXPECT_THAT(refusal(other), HasSubstr("3 senders of 2 micro-batches over 4 shards"));
  other = plan;
  other.recipe.coded->back = codec::parse("q8");
  EXPECT_THAT(refusal(other), HasSubstr("with codes of every micro-batch"));
  other = plan;
  other.recipe.coded->codec = codec::parse("i8x");
  EXPECT_THAT(refusal(other), HasSubstr("codec i8x with shards that are exchanged every"));
  other = plan;
  other.recipe.coded->residuals = 2;
  EXPECT_THAT(refusal(other), HasSubstr("2 residuals of 4 senders; needs a divisor of them and a"));
  other.recipe.coded->residual = DType::kF32;
  other.recipe.coded->residuals = 1;
  EXPECT_THAT(refusal(other), HasSubstr("1 residuals of 2 senders of each micro-batch"));
}

// One residual for each block of neighbours, which the first micro-batch of a step makes and its step keeps.
TEST(CodedGather, MicroBatchesShareTheResidualsOfAStep) {
  const PlanSet plan = gathered_plan(4, 4, DType::kBF16);
  ASSERT_EQ(refusal(plan), "");
  EXPECT_EQ(parse(print(plan)), plan);
  for (UnitId unit = 0; unit < std::ssize(plan.program.units); ++unit) {
    const CodedReduction reduction = coded_reduction(plan, unit);
    EXPECT_EQ(reduction.residuals(), 1);
    EXPECT_EQ(residual_bytes(plan, 0, unit), 2 * reduction.count);
    std::set<std::pair<int, std::int64_t>> held;  // number and first element
    std::int64_t elements = 0;
    for (int rank = 0; rank < 4; ++rank)
      for (const auto& [begin, end, at] : residual_ranges(plan, rank, unit)) {
        EXPECT_TRUE(held.emplace(residual_number(plan, rank, unit, 0), begin).second);
        elements += end - begin;
      }
    EXPECT_EQ(elements, 2 * plan.program.units[unit].numel);
  }
  for_each_line(plan, [&](std::size_t l, std::size_t i) {
    if (!plan.lists[l][i].residual) return;
    PlanSet other = plan;
    other.lists[l][i].residual = false;
    EXPECT_THAT(refusal(other), HasSubstr("residuals"));
  });
}

TEST(CodedGather, ExplainStatesWhatCrossesAndThatHsdpSendsLess) {
  const PlanSet plan = gathered_plan(4, 4);
  const StepNumbers numbers{.step_s = 1, .host_ranks = 2, .crossing_bytes = 3 << 20};
  EXPECT_THAT(explain_text(plan, 0, memory_account(plan, 0), numbers),
              testing::AllOf(HasSubstr("a host of 2 ranks sends 3.0 MiB to other hosts"),
                             HasSubstr("as codes of each of 2 micro-batches; HSDP")));
}

}  // namespace
}  // namespace trireme::plan::coded_gather_test
