#include "trireme/plan/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/harness/examples.h"
#include "trireme/base/error.h"
#include "trireme/plan/passes/compile.h"

namespace trireme::plan::text_test {
namespace {

using testing::HasSubstr;

const PlanSet& sample() {
  static const PlanSet plan =
      compile(harness::chain_example(), mesh::Mesh({.dp_shard = 2}), {.zero = 3});
  return plan;
}

std::string refusal(const std::string& text) {
  try {
    parse(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  return "";
}

// The sample's text with one piece replaced.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = print(sample());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Text, OddNumbersSurvive) {
  PlanSet plan = sample();
  plan.program.nodes[0].flops = 1.0 / 3;
  plan.program.nodes[0].looks_up = true;
  plan.program.nodes[1].flops = 1e300;
  plan.program.nodes[1].backward_flops = 1.0 / 7;
  plan.program.values[0].bytes = std::int64_t{1} << 62;
  EXPECT_EQ(parse(print(plan)), plan);
  plan.program.units[0].type = DType::kF16;
  EXPECT_EQ(parse(print(plan)), plan);
}

TEST(Text, EveryFieldOfARecipeSurvives) {
  PlanSet plan = sample();
  plan.recipe = {.zero = 2,
                 .micro_batches = 5,
                 .prefetch = 3,
                 .canonical = false,
                 .clip = false,
                 .schedule = schedules::Schedule::kGpipe,
                 .compute = DType::kBF16,
                 .master = DType::kF64,
                 .grads = DType::kF32,
                 .reduce = DType::kBF16,
                 .coded = CodedSums{.codec = codec::parse("q4"),
                                    .senders = 3,
                                    .back = codec::parse("topk:0.01:16"),
                                    .residual = DType::kBF16,
                                    .residuals = 3},
                 .outer = OuterSteps{.islands = 4,
                                     .every = 500,
                                     .fragments = 6,
                                     .delay = 2,
                                     .blend = 0.25,
                                     .lr = 0.4,
                                     .momentum = 0.8,
                                     .codec = codec::parse("q4:stochastic"),
                                     .back = codec::parse("q8"),
                                     .residual = DType::kBF16,
                                     .direction = true,
                                     .work = {.applied = {0, 5}, .sent = {3}, .at_once = true}},
                 .gather = CodedGather{.codec = codec::parse("q8"), .within = 4},
                 .algorithm = algorithm::Kind::kRingGather,
                 .optimizer_states = 1,
                 .int8_states = true};
  plan.recipe.gathers_after_step = true;
  EXPECT_EQ(parse(print(plan)).recipe, plan.recipe);
  plan.recipe.reduce.reset();
  EXPECT_EQ(parse(print(plan)).recipe, plan.recipe);
  plan.recipe.canonical = true;
  plan.recipe.micro_batches = 6;
  plan.recipe.group = 3;
  EXPECT_EQ(parse(print(plan)).recipe, plan.recipe);
}

TEST(Text, ErrorsNameTheLine) {
  EXPECT_EQ(refusal(""), "plan line 1: ends too early");
  EXPECT_THAT(refusal("plan 2 chain\n"), HasSubstr("plan line 1: version 2"));
  EXPECT_THAT(refusal(edited("mesh pp1", "mesh qq1")), HasSubstr("plan line 2:"));
  EXPECT_THAT(refusal(edited("zero=3", "zero=x")), HasSubstr("plan line 3: \"x\" is not a number"));
  EXPECT_THAT(refusal(edited("canonical=yes", "canonical=1")), HasSubstr("neither yes nor no"));
  EXPECT_THAT(refusal(edited(" prefetch=1", "")), HasSubstr("plan line 3: needs prefetch="));
  EXPECT_THAT(refusal(edited("value targets", "value tokens")),
              HasSubstr("plan line 5: tokens is named twice"));
  EXPECT_THAT(refusal(edited("units=embed", "units=nobody")), HasSubstr("\"nobody\" is no unit"));
  EXPECT_THAT(refusal(edited("list 0", "lost 0")), HasSubstr("\"lost\" is neither"));
  EXPECT_THAT(refusal(edited("ranks=0-1", "ranks=0-2")),
              HasSubstr("rank 2 is not in a world of 2"));
  EXPECT_THAT(refusal(edited("ranks=0-1", "ranks=0")), HasSubstr("rank 1 has no list"));
  EXPECT_THAT(refusal(edited("ranks=0-1", "ranks=0-1,1")), HasSubstr("rank 1 has list 0 already"));
  EXPECT_THAT(refusal(edited("comp forward", "comp foreward")),
              HasSubstr("\"foreward\" is not a word"));
  EXPECT_THAT(refusal(edited("   2 ", "   3 ")), HasSubstr("is numbered 3, needs 2"));
  EXPECT_THAT(refusal(edited("over=dp_shard", "over=dp_sharp")), HasSubstr("dp_sharp"));
  EXPECT_THAT(refusal(edited("mb=0", "mb=0 hello")), HasSubstr("\"hello\" does not belong here"));
}

TEST(Text, OnlyTheCanonicalFormIsRead) {
  EXPECT_THAT(refusal(edited("zero=3", "zero=03")),
              HasSubstr("plan line 3: not in canonical form"));
  EXPECT_THAT(refusal(edited("list 0 ", "list 0  ")), HasSubstr("not in canonical form"));
  EXPECT_THAT(refusal(print(sample()) + "\n"), HasSubstr("plan line"));
  std::string text = print(sample());
  text.pop_back();
  EXPECT_THAT(refusal(text), HasSubstr("plan line"));
}

// Cutting or damaging the text anywhere gives an error of kind kData, or a plan that prints as read.
TEST(Text, DamagedTextIsRefusedOrRead) {
  const std::string text = print(sample());
  for (std::size_t i = 0; i < text.size(); i += 3) {
    EXPECT_NE(refusal(text.substr(0, i)), "") << "cut at " << i;
    std::string damaged = text;
    damaged[i] = '7';
    try {
      EXPECT_EQ(print(parse(damaged)), damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
    }
  }
}

TEST(Text, RangesFold) {
  EXPECT_EQ(ranges_text({0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(ranges_text({}), "");
}

}  // namespace
}  // namespace trireme::plan::text_test
