// What is trained on a frozen H-V-JEPA tower, and language on either tower of clips, is one under every layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/harness/small_jobs.h"
#include "tests/harness/vjepa_jobs.h"

namespace trireme::train::frozen_towers_test {
namespace {

using config::Family;
using harness::JobTrace;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// And other micro-batches.
std::vector<NamedLayout> layouts() {
  std::vector<NamedLayout> all =
      harness::named({{"run.micro_batch=1"}, {"run.micro_batch=8"}, {"recompute.policy=full"}});
  all.insert(all.end(), harness::kLayouts.begin(), harness::kLayouts.end());
  return all;
}

JobTrace expect_parity(Family family, const Sets& sets = {}) {
  return harness::expect_parity(
      [&](const Sets& layout) {
        return harness::chunked_job(family, Sets{"run.micro_batch=2"} + sets + layout);
      },
      layouts());
}

TEST(FrozenChunks, AProbeIsOneUnderEveryLayout) {
  EXPECT_NEAR(expect_parity(Family::kProbe).losses[0], std::log(8), 0.1);
}

TEST(FrozenChunks, AnActionPredictorIsOneUnderEveryLayout) {
  // Both terms, of a distance between normed features and predictions that know nothing.
  EXPECT_NEAR(expect_parity(Family::kJepaAc).losses[0], 2.2, 0.3);
}

TEST(FrozenChunks, LanguageIsOneUnderEveryLayout) {
  EXPECT_NEAR(expect_parity(Family::kVlm, {"vlm.mrope=2,1,1"}).losses[0], std::log(260), 0.3);
}

TEST(FrozenClips, LanguageIsOneUnderEveryLayout) {
  harness::expect_parity(
      [](const Sets& layout) {
        return harness::vjepa_job(
            Family::kVlm, Sets{"run.micro_batch=2", "projector.kind=perceiver",
                               "projector.queries=3", "projector.layers=2", "projector.heads=1"} +
                              layout);
      },
      {{"one sample at a time", {"run.micro_batch=1"}},
       harness::kZero3,
       harness::kTpDp,
       harness::kPpDp});
}

TEST(FrozenChunks, OfEveryModeGiveAnother) {
  std::vector<double> losses;
  for (const char* mode : {"threshold", "topk", "fixed"})
    losses.push_back(
        harness::run_job(harness::chunked_job(Family::kProbe, {std::string("chunk.mode=") + mode}),
                         1)
            .losses[0]);
  losses.push_back(harness::run_job(harness::vjepa_job(Family::kProbe), 1).losses[0]);
  std::ranges::sort(losses);
  EXPECT_EQ(std::ranges::adjacent_find(losses), losses.end());
}

TEST(FrozenChunks, EveryComputeTypeTrains) {
  for (const Family family : {Family::kProbe, Family::kJepaAc, Family::kVlm}) {
    const double exact = harness::run_job(harness::chunked_job(family), 2).losses[1];
    for (const char* type : {"precision.compute=fp32", "precision.compute=bf16"})
      EXPECT_NEAR(harness::run_job(harness::chunked_job(family, {type}), 2).losses[1], exact,
                  2e-2 * exact)
          << type;
  }
}

// Stage A of language alignment trains the projector alone, through a decoder that stays as it is; no stage the tower.
TEST(FrozenChunks, OnlyWhatIsNotFrozenMoves) {
  const auto moved = [](const Sets& sets) {
    const config::Job job = harness::chunked_job(Family::kVlm, sets);
    const JobTrace before = harness::run_job(job, 0), after = harness::run_job(job, 2);
    std::vector<std::string> names;
    for (const auto& [name, values] : before.states)
      if (name.ends_with(" param") && values != after.states.at(name)) names.push_back(name);
    return names;
  };
  const auto begin_with = [](const std::string& prefix) {
    return [prefix](const std::string& name) { return name.starts_with(prefix); };
  };
  const std::vector<std::string> all = moved({}), some = moved({"model.frozen=embed,block.*,head"});
  EXPECT_EQ(some.size(), 5u);
  EXPECT_EQ(std::ranges::count_if(some, begin_with("multi_modal_projector.")), 4);
  EXPECT_EQ(std::ranges::count_if(some, begin_with("readout.")), 1);
  EXPECT_GT(all.size(), 20u);
  EXPECT_TRUE(std::ranges::none_of(all, begin_with("target_encoder.")));
}

}  // namespace
}  // namespace trireme::train::frozen_towers_test
