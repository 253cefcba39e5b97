// Any layout trains the same ARR-COC; scorers learn through the gate alone, and give the region that is asked about most
// of the tokens.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/small_jobs.h"
#include "trireme/base/fs.h"
#include "trireme/config/resolve.h"

namespace trireme::train {
namespace {

using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 2;
constexpr double kTight = 1e-12;

config::Job job_of(const std::vector<std::string>& sets) {
  config::Job job;
  for (const char* set : {"model.family=arrcoc",    "data.source=quadrants", "data.samples=64",
                          "precision.compute=fp64", "vision.image=32",       "vision.patch=4",
                          "vision.hidden=16",       "vision.heads=2",        "vision.layers=2",
                          "model.hidden=32",        "model.heads=4",         "model.kv_heads=2",
                          "model.layers=2",         "model.ffn=48",          "model.seq_len=40",
                          "arrcoc.grid=2",          "arrcoc.least=2",        "arrcoc.most=5",
                          "arrcoc.budget=36",       "arrcoc.hidden=8",       "run.global_batch=8",
                          "run.micro_batch=1",      "parallel.dp_shard=1"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

const std::vector<NamedLayout> kLayouts = {
    {"dp 2", {"parallel.dp_shard=2"}},
    {"dp 4", {"parallel.dp_shard=4"}},
    {"ZeRO-3", {"parallel.dp_shard=4", "parallel.zero=3"}},
    {"tp 2", {"parallel.tp=2"}},
    {"pp 2", {"parallel.pp=2"}},
    {"tp 2, dp 2", {"parallel.tp=2", "parallel.dp_shard=2"}},
    {"pp 2, dp 2", {"parallel.pp=2", "parallel.dp_shard=2"}}};

void expect_parity(const Sets& sets, const std::vector<NamedLayout>& layouts) {
  const harness::JobTrace one =
      harness::expect_parity([&](const Sets& layout) { return job_of(sets + layout); }, layouts);
  EXPECT_NEAR(one.losses[0], std::log(8.0), 0.3);
}

TEST(ArrcocParity, EveryLayoutTrainsTheSameModel) { expect_parity({}, kLayouts); }

TEST(ArrcocParity, ScorersAloneTrainTheSameModel) {
  expect_parity({"model.frozen=vision.*,projector,embed,block.*,head"},
                {kLayouts[2], kLayouts[5], kLayouts[6]});
}

TEST(ArrcocParity, AdaptersBesideScorersTrainTheSameModel) {
  expect_parity({"lora.rank=2", "lora.also=scorers,levels"},
                {kLayouts[2], kLayouts[5], kLayouts[6]});
}

TEST(ArrcocParity, RegionsThatNobodyScoresTrainTheSameModel) {
  expect_parity({"arrcoc.allocation=random"}, {kLayouts[5], kLayouts[6]});
}

TEST(ArrcocParity, AMicroBatchIsItsSamplesOneByOne) {
  const harness::JobTrace single = harness::run_job(job_of({}), kSteps);
  const harness::JobTrace four = harness::run_job(job_of({"run.micro_batch=4"}), kSteps);
  EXPECT_LT(harness::distance(single, four), kTight);
}

bool of_scorers(const std::string& name) {
  return name.starts_with("scorers.") || name.starts_with("balancer.");
}

TEST(ArrcocGate, ScorersMoveWithItAndOnlyWithIt) {
  const std::vector<std::string> still = {"optim.weight_decay=0"};
  const std::vector<std::string> ungated = {"optim.weight_decay=0", "arrcoc.gate=false"};
  const harness::JobTrace begin = harness::run_job(job_of(ungated), 1);
  const harness::JobTrace without = harness::run_job(job_of(ungated), 3);
  const harness::JobTrace with = harness::run_job(job_of(still), 3);
  int moved = 0, compared = 0;
  for (const auto& [name, values] : begin.states) {
    if (!of_scorers(name)) continue;
    EXPECT_EQ(values, without.states.at(name)) << name;
    moved += values != with.states.at(name);
    ++compared;
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(moved, 20);
  // The first forward is the same to the bit.
  EXPECT_EQ(begin.losses[0], with.losses[0]);
}

harness::JobTrace trained(const std::vector<std::string>& sets, int steps) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "arrcoc_tiny.yaml");
  job.parallel.dp_shard = 1;
  for (const std::string& set : sets) config::apply_set(job, set);
  return harness::run_job(job, steps);
}

// Of the last ten steps: accuracy, tokens of the region that is asked about.
std::vector<double> last_ten(const harness::JobTrace& trace) {
  std::vector<double> sums(2), of(2);
  for (std::size_t step = trace.counts.size() - 10; step < trace.counts.size(); ++step)
    for (std::size_t metric = 0; metric < 2; ++metric) {
      sums[metric] += trace.counts[step][metric].sum;
      of[metric] += trace.counts[step][metric].of;
    }
  return {sums[0] / of[0], sums[1] / of[1]};
}

TEST(ArrcocTiny, TheRegionThatIsAskedAboutGetsMostTokensAndIsReadWithin200Steps_slow) {
  const std::vector<double> reached = last_ten(trained({}, 200));
  EXPECT_GT(reached[0], 0.95);
  EXPECT_GT(reached[1], 50);
}

TEST(ArrcocTiny, WithoutTheGateItGetsNoMoreThanAnyOther_slow) {
  EXPECT_NEAR(last_ten(trained({"arrcoc.gate=false"}, 100))[1], 19, 3);
}

TEST(ArrcocPrecision, TrainsInNarrowTypes) {
  const double exact = harness::run_job(job_of({}), kSteps).losses.back();
  for (const char* type : {"precision.compute=fp32", "precision.compute=bf16"})
    EXPECT_NEAR(harness::run_job(job_of({type}), kSteps).losses.back(), exact, 0.05) << type;
}

}  // namespace
}  // namespace trireme::train
