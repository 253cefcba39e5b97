// Jobs of family arrcoc: what is derived, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve.h"
#include "trireme/config/resolve_arrcoc.h"

namespace trireme::config {
namespace {

using testing::HasSubstr;

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
  EXPECT_EQ(resolved({"arrcoc.least=2", "arrcoc.most=8"}).arrcoc.budget, 36);
  EXPECT_EQ(resolved({"arrcoc.least=7", "arrcoc.most=8"}).arrcoc.budget, 256);
  EXPECT_THAT(refusal({"arrcoc.budget=255"}), HasSubstr("have 256 to 1600"));
  EXPECT_THAT(refusal({"model.seq_len=576"}), HasSubstr("set model.seq_len=577"));
  EXPECT_THAT(refusal({"arrcoc.least=20"}), HasSubstr("arrcoc.least=20"));
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

TEST(Arrcoc, WhatItHasNoUseForIsRefused) {
  EXPECT_THAT(refusal({"arrcoc.grid=4"}), HasSubstr("set arrcoc.grid=2"));
  EXPECT_THAT(refusal({"vision.image=66", "vision.patch=2", "arrcoc.grid=4"}),
              HasSubstr("vision.image=66"));
  EXPECT_THAT(refusal({"projector.kind=perceiver"}), HasSubstr("projector"));
  EXPECT_THAT(refusal({"data.source=scenes"}), HasSubstr("data.source=quadrants"));
  EXPECT_THAT(refusal({"vision.pooling=class"}), HasSubstr("vision.pooling"));
}

}  // namespace
}  // namespace trireme::config
