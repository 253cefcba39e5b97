// Jobs of family arrcoc: what is derived, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/arrcoc/keys_checks.h"

namespace trireme::config::arrcoc_test {
namespace {

using testing::HasSubstr;
using Sets = std::vector<std::string>;

Job resolved(const std::vector<std::string>& sets) {
  Job job;
  for (const char* set : {"model.family=arrcoc", "data.source=quadrants", "arrcoc.grid=2",
                          "vision.image=64", "model.seq_len=2305"})
    apply_set(job, set);
  for (const std::string& set : sets) apply_set(job, set);
  return resolve(job, 1, {});
}

std::string refusal(const std::vector<std::string>& sets) {
  return usage_error_of([&] { resolved(sets); });
}

TEST(Arrcoc, TheBudgetIsNineQuartersOfTheLeast) {
  EXPECT_EQ(resolved({}).arrcoc.budget, 576);  // 144 a region
  EXPECT_EQ(resolved({"arrcoc.sides=[2, 8]"}).arrcoc.budget, 36);
  EXPECT_EQ(resolved({"arrcoc.sides=[7, 8]"}).arrcoc.budget, 256);
  EXPECT_THAT(
      refusal({"arrcoc.budget=255"}),
      HasSubstr("less than (arrcoc.grid=2 x the first of arrcoc.sides=[8, 20])^2 = 256 tokens"));
  EXPECT_THAT(refusal({"arrcoc.budget=1601"}), HasSubstr("lower it to 1600 or less"));
  EXPECT_THAT(refusal({"model.seq_len=576"}), HasSubstr("raise it to 577 or more"));
  EXPECT_THAT(refusal({"arrcoc.sides=[20, 20]"}), HasSubstr("arrcoc.sides=[20, 20]"));
}

TEST(Arrcoc, PositionsOfAHeadAreSharedOutOverTimeRowAndColumn) {
  EXPECT_EQ(resolved({"model.hidden=128", "model.heads=1"}).vlm.mrope, "16,24,24");
  EXPECT_EQ(resolved({"vlm.mrope=4,2,2"}).vlm.mrope, "4,2,2");
  EXPECT_THAT(refusal({"vlm.mrope=4,2,1"}), HasSubstr("vlm.mrope=4,2,1"));
}

TEST(Arrcoc, ChannelsAndScorersAreChosenByName) {
  Arrcoc arrcoc;
  arrcoc.channels = "lab,position";
  const std::array<bool, 13> chosen = texture_channels(arrcoc);
  for (std::size_t i = 0; i < chosen.size(); ++i)
    EXPECT_EQ(chosen[i], (i >= 3 && i <= 5) || i == 10 || i == 11) << i;
  arrcoc.scorers = "coupling,information";
  EXPECT_EQ(scored(arrcoc).count(), 2);
  EXPECT_FALSE(scored(arrcoc).salience);
  EXPECT_THAT(refusal({"arrcoc.channels=depth"}), HasSubstr("there is no depth"));
  EXPECT_THAT(refusal({"arrcoc.scorers=depth"}), HasSubstr("there is no depth"));
}

TEST(Arrcoc, WidthsOfScorersFollowFromOne) {
  const Arrcoc arrcoc = resolved({"arrcoc.hidden=40"}).arrcoc;
  EXPECT_EQ(arrcoc.coupling, 20);
  EXPECT_EQ(arrcoc.balancer, 40);
  EXPECT_EQ(resolved({"arrcoc.widths=[7, 9]"}).arrcoc.coupling, 7);
}

TEST(Arrcoc, OnlyScorersThatTrainAreCharged) {
  const std::string kBudget = "arrcoc.scorers=information,salience,coupling,budget";
  EXPECT_TRUE(resolved({kBudget, "arrcoc.penalties=[0.1, 0]"}).arrcoc.gate);
  EXPECT_THAT(refusal({"arrcoc.penalties=[0.1, 0]"}),
              HasSubstr("set arrcoc.scorers=information,salience,coupling,budget"));
  EXPECT_THAT(refusal({kBudget, "arrcoc.gate=false"}),
              HasSubstr("budget, arrcoc.gate=false: a budget that is chosen"));
  EXPECT_THAT(refusal({"arrcoc.penalties=[0, 0.01]", "arrcoc.scorers=random"}),
              HasSubstr("arrcoc.penalties=[0, 0.01]"));
}

TEST(Arrcoc, ADecoderOfGptHasWhatGptHas) {
  const Sets gpt = {"arrcoc.decoder=gpt"};
  EXPECT_EQ(resolved(gpt).model.ffn, 4 * resolved(gpt).model.hidden);
  EXPECT_THAT(refusal({"arrcoc.decoder=gpt", "model.kv_heads=2"}), HasSubstr("model.kv_heads=2"));
  EXPECT_THAT(refusal({"arrcoc.decoder=gpt", "model.qk_norm=true"}),
              HasSubstr("model.qk_norm=true"));
  EXPECT_THAT(refusal({"arrcoc.decoder=gpt", "lora.rank=2", "lora.targets=query_value"}),
              HasSubstr("lora.targets=query_value"));
  EXPECT_THAT(refusal({"projector.kind=none"}), HasSubstr("projector.kind=none"));
  EXPECT_EQ(text_tokens(resolved({"model.seq_len=600"})), 24);
}

TEST(Arrcoc, AUsersQuestionsHaveBytesForTokens) {
  const Sets pairs = {"data.source=pairs", "data.path=x"};
  EXPECT_EQ(resolved(pairs).model.vocab, 258);
  EXPECT_THAT(refusal({"data.source=pairs", "data.path=x", "model.seq_len=577"}),
              HasSubstr("raise it to 578 or more"));
  EXPECT_THAT(refusal({"data.source=pairs"}), HasSubstr("set data.path"));
}

TEST(Arrcoc, WhatItHasNoUseForIsRefused) {
  EXPECT_THAT(refusal({"arrcoc.grid=4"}), HasSubstr("set arrcoc.grid=2"));
  EXPECT_THAT(refusal({"vision.image=66", "vision.patch=2", "arrcoc.grid=4"}),
              HasSubstr("vision.image=66"));
  EXPECT_THAT(refusal({"projector.kind=perceiver"}), HasSubstr("projector"));
  EXPECT_THAT(refusal({"data.source=scenes"}), HasSubstr("data.source=quadrants"));
  EXPECT_THAT(refusal({"vision.pooling=class"}), HasSubstr("vision.pooling"));
}

}  // namespace
}  // namespace trireme::config::arrcoc_test
