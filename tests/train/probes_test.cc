// Several probes on the features of one tower: each is trained as it would be alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "tests/harness/jobs.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/probe/keys_probes.h"

namespace trireme::train::probes_test {
namespace {

using harness::JobTrace;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

config::Job probes_job(const std::string& rates, const Sets& layout = {}) {
  Sets sets = {"optim.clip=0", "optim.lr=0.01", "probe.lr=" + rates};
  sets.insert(sets.end(), layout.begin(), layout.end());
  return harness::vjepa_job(config::Family::kProbe, sets);
}

JobTrace run(const std::string& rates, const Sets& layout = {}) {
  return harness::run_job(probes_job(rates, layout), 2);
}

// Parameters and what the optimizer keeps of one probe.
std::map<std::string, std::vector<double>> of_probe(const JobTrace& trace, int probe) {
  std::map<std::string, std::vector<double>> own;
  for (const auto& [name, state] : trace.states)
    if (name.starts_with("probe." + std::to_string(probe) + ".")) own[name] = state;
  return own;
}

TEST(Probes, TrainToTheBitAsEachWouldAlone) {
  const JobTrace both = run("1,0.1"), first = run("1"), other = run("0.3,0.1");
  ASSERT_GT(of_probe(both, 0).size(), 20u);
  EXPECT_EQ(of_probe(both, 0), of_probe(first, 0));
  EXPECT_EQ(of_probe(both, 1), of_probe(other, 1));
  EXPECT_NE(of_probe(both, 0), of_probe(other, 0));  // by its rate
  ASSERT_EQ(both.counts[1].size(), 2u);
  EXPECT_EQ(both.counts[1][0].sum, first.counts[1][0].sum);
  EXPECT_EQ(both.counts[1][1].of, 8);
}

TEST(Probes, TrainAlikeOnEveryLayout) {
  const JobTrace one = run("1,0.1,2");
  for (const Sets& layout :
       {Sets{"parallel.dp_shard=4", "parallel.zero=3"}, Sets{"parallel.tp=2"},
        Sets{"parallel.pp=2", "run.micro_batch=2"}, Sets{"recompute.policy=full"}})
    EXPECT_LT(harness::distance(one, run("1,0.1,2", layout)), 1e-12)
        << testing::PrintToString(layout);
}

// A probe with every rate and decay, each as it would be alone.
TEST(Probes, DecayAsEachWouldAlone) {
  const Sets decays = {"optim.weight_decay=0.5"};
  const auto grid = [&](const std::string& rates, const std::string& factors) {
    return harness::run_job(probes_job(rates, {decays[0], "probe.weight_decay=" + factors}), 2);
  };
  const JobTrace four = grid("1,0.1", "1,0"), two = grid("1", "1,0"), plain = grid("1", "1");
  for (int probe : {0, 1}) EXPECT_EQ(of_probe(four, probe), of_probe(two, probe));
  EXPECT_EQ(of_probe(two, 0), of_probe(plain, 0));
  EXPECT_EQ(of_probe(plain, 0), of_probe(harness::run_job(probes_job("1", decays), 2), 0));
  EXPECT_NE(of_probe(two, 0), of_probe(two, 1));
  const JobTrace none = harness::run_job(probes_job("0.3,1", {"optim.weight_decay=0"}), 2);
  EXPECT_EQ(of_probe(grid("0.3,1", "0"), 1), of_probe(none, 1));
  const JobTrace shared = harness::run_job(
      probes_job("1,0.1",
                 {decays[0], "probe.weight_decay=1,0", "parallel.dp_shard=4", "parallel.zero=3"}),
      2);
  EXPECT_LT(harness::distance(four, shared), 1e-12);
}

TEST(Probes, AreNamedByTheirRates) {
  EXPECT_THAT(config::probe_metrics(probes_job("1,0.05")),
              ElementsAre("accuracy_lr0.01", "accuracy_lr0.0005"));
  EXPECT_THAT(config::probe_metrics(probes_job("")), ElementsAre("accuracy"));
  EXPECT_THAT(config::probe_metrics(
                  probes_job("1,0.1", {"optim.weight_decay=0.5", "probe.weight_decay=1,0.2"})),
              ElementsAre("accuracy_lr0.01_wd0.5", "accuracy_lr0.01_wd0.1",
                          "accuracy_lr0.001_wd0.5", "accuracy_lr0.001_wd0.1"));
}

TEST(Probes, AreEvaluatedUnderTheNameOfTheirProtocol) {
  config::Job job = probes_job("1,0.05");
  job.vision.frames = 16;
  job.probe.segments = 2, job.probe.views = 3;
  EXPECT_THAT(config::held_out_metrics(job, config::probe_metrics(job)),
              ElementsAre("accuracy_16x2x3_lr0.01", "accuracy_16x2x3_lr0.0005"));
  EXPECT_THAT(config::held_out_metrics(job, {"accuracy"}), ElementsAre("accuracy_16x2x3"));
  job.model.family = config::Family::kVit;
  EXPECT_THAT(config::held_out_metrics(job, {"accuracy"}), ElementsAre("accuracy"));
}

TEST(Probes, ThatWouldNotBeIndependentAreRefused) {
  const auto refusal = [](const std::string& rates, const Sets& more = {}) {
    return config::usage_error_of([&] { config::resolve(probes_job(rates, more), 1, {}); });
  };
  EXPECT_THAT(refusal("1,2", {"optim.clip=1"}), HasSubstr("set optim.clip=0"));
  EXPECT_THAT(refusal("1,fast"), HasSubstr("probe.lr=1,fast: \"fast\" is not a number above 0"));
  EXPECT_THAT(refusal("1,0"), HasSubstr("\"0\" is not a number above 0"));
  EXPECT_THAT(refusal("1,2,1.0"), HasSubstr("two probes with 1"));
  EXPECT_THAT(refusal("1,1.0000001"), HasSubstr("both report accuracy_lr0.01"));
  EXPECT_THAT(refusal("", {"optim.clip=1", "probe.weight_decay=1,0"}),
              HasSubstr("set optim.clip=0"));
  EXPECT_THAT(refusal("1", {"probe.weight_decay=1,-1"}),
              HasSubstr("probe.weight_decay=1,-1: \"-1\" is not a number from 0"));
  EXPECT_THAT(refusal("1", {"probe.weight_decay=1,2", "optim.weight_decay=0"}),
              HasSubstr("optim.weight_decay=0 has no multiples"));
}

}  // namespace
}  // namespace trireme::train::probes_test
