// Decoders that attend to images: any layout trains the same model, and it learns to use them.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/harness/small_jobs.h"
#include "tests/train/vlm_jobs.h"
#include "trireme/families/vlm/samples_questions.h"

namespace trireme::train::gated_cross_test {
namespace {

using harness::JobTrace;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// Gates that one step opens, so that the next ones see images.
config::Job crossing(const Sets& sets) {
  return small_vlm(Sets{"vlm.cross=[1, 2]", "vlm.max_tiles=0", "optim.lr=0.02",
                        "optim.warmup_steps=0", "projector.kind=perceiver", "projector.queries=3",
                        "projector.layers=1", "projector.heads=1", "model.seq_len=24"} +
                   sets);
}

void expect_parity(const Sets& sets, const std::vector<NamedLayout>& layouts) {
  constexpr int kSteps = 3;
  const JobTrace one = harness::run_job(crossing(sets), kSteps);
  for (const NamedLayout& layout : layouts)
    // Queries of a Perceiver begin 50 times as large as other weights, and so do the differences of rounding: 1.4e-11 where
    // vectors have four doubles (AVX2), 2.1e-11 at most where they have eight. A wrong sum differs by 1e-6 or more.
    EXPECT_LT(harness::distance(one, harness::run_job(crossing(sets + layout.sets), kSteps)), 5e-11)
        << layout.name;
}

// One sample in eight has no image, some have two: micro-batches have none, one and two.
TEST(GatedCrossParity, EveryLayoutTrainsTheSameModel) {
  std::vector<NamedLayout> layouts = harness::kLayouts;
  layouts.push_back({"cp 2", {"parallel.cp=2"}});
  layouts.push_back({"zero bubble", {"parallel.pp=2", "parallel.schedule=zb_h1"}});
  expect_parity({"model.layers=3"}, layouts);
  expect_parity({"vlm.cross=[1, 3]"}, {harness::kLayouts[2]});  // two on one rank, one on the other
}

// What the tests of layouts rest on.
TEST(GatedCrossParity, OpenGatesLetGradientsThrough) {
  const JobTrace first = harness::run_job(crossing({"optim.weight_decay=0"}), 1),
                 third = harness::run_job(crossing({"optim.weight_decay=0"}), 3);
  const JobTrace begin = harness::run_job(crossing({"optim.lr=1e-6", "optim.weight_decay=0"}), 1);
  int seeing = 0;
  for (const auto& [name, values] : begin.states) {
    if (!name.starts_with("multi_modal_projector.") || !name.ends_with(" param")) continue;
    EXPECT_EQ(values, first.states.at(name)) << name;  // behind gates that were shut
    EXPECT_NE(values, third.states.at(name)) << name;
    ++seeing;
  }
  EXPECT_GT(seeing, 10);
}

TEST(GatedCrossParity, OtherProjectorsAndFrozenPartsTrainTheSameModel) {
  expect_parity({"projector.kind=mlp", "projector.queries=32", "projector.layers=6",
                 "projector.heads=8", "vlm.cross=[2, 2]"},
                {harness::kLayouts[1], harness::kLayouts[4], harness::kLayouts[5]});
  expect_parity({"model.frozen=vision.*,embed,block.*,head"},
                {harness::kLayouts[1], harness::kLayouts[4], harness::kLayouts[5]});
  expect_parity({"projector.kind=qformer", "projector.heads=2", "vlm.balance=true"},
                {harness::kLayouts[3], harness::kLayouts[4]});
}

TEST(GatedCrossParity, ComputingAgainChangesNothing) {
  expect_parity({}, {{"recompute", {"recompute.policy=full"}},
                     {"recompute of stages", {"recompute.policy=full", "parallel.pp=2"}}});
}

TEST(GatedCrossParity, AMicroBatchIsItsSamplesOneByOne) {
  const JobTrace single = harness::run_job(crossing({}), 3);
  EXPECT_LT(harness::distance(single, harness::run_job(crossing({"run.micro_batch=4"}), 3)), 1e-12);
}

// Seeds whose first samples are without images.
std::int64_t blind_seed(std::int64_t samples) {
  for (std::int64_t seed = 1;; ++seed) {
    bool none = true;
    for (std::int64_t n = 0; n < samples && none; ++n)
      none = !loaders::question(seed, n).has_image();
    if (none) return seed;
  }
}

// Every micro-batch has a blank tile that nothing attends to: feed-forward layers train, what sees does not.
TEST(GatedCrossParity, BatchesWithoutAnyImageLeaveWhatSeesAlone) {
  const Sets sets = {"data.seed=" + std::to_string(blind_seed(2)), "data.samples=2",
                     "optim.weight_decay=0"};
  expect_parity(sets, {harness::kLayouts[1], harness::kLayouts[2], harness::kLayouts[5]});
  const JobTrace before = harness::run_job(crossing(sets), 1),
                 after = harness::run_job(crossing(sets), 4);
  int compared = 0, moved = 0;
  for (const auto& [name, values] : before.states) {
    const bool sees = name.starts_with("vision_tower.") ||
                      name.starts_with("multi_modal_projector.") ||
                      name.find(".attn.") != name.npos || name.find("attn_gate") != name.npos;
    const bool feeds = name.find(".ff") != name.npos;
    if (sees) {
      EXPECT_EQ(values, after.states.at(name)) << name;
    }
    compared += sees;
    moved += feeds && values != after.states.at(name);
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(moved, 10);
}

// The least that answers of these samples can cost a token on average, for whoever reads the text alone.
double loss_of_the_blind(const config::Job& job) {
  std::map<std::string, std::map<std::string, int>> answers;  // of each text, how often
  double tokens = 0, cost = 0;
  for (std::int64_t n = 0; n < job.data.samples; ++n) {
    const loaders::Question asked = loaders::question(job.data.seed, n);
    tokens += static_cast<double>(asked.answer.size() + 1);
    ++answers[asked.before + std::string(static_cast<std::size_t>(asked.images()), '#') +
              asked.question][asked.answer];
  }
  for (const auto& [text, counts] : answers) {
    int all = 0;
    for (const auto& [answer, count] : counts) all += count;
    for (const auto& [answer, count] : counts)
      cost -= count * std::log(static_cast<double>(count) / all);
  }
  return cost / tokens;
}

// Learnt by heart, but not from the text: samples with the same one have other answers.
TEST(GatedCrossTraining, TheImageIsUsed) {
  const Sets sets = {"precision.compute=fp32", "data.samples=24", "run.global_batch=24",
                     "run.micro_batch=24",     "optim.lr=0.01",   "optim.weight_decay=0"};
  const double blind = loss_of_the_blind(crossing(sets));
  EXPECT_GT(blind, 0.3);
  constexpr int kSteps = 80;
  EXPECT_LT(harness::run_job(crossing(sets), kSteps).losses.back(), blind / 2);
  // Gates that stay shut.
  const JobTrace shut = harness::run_job(crossing(sets + Sets{"model.frozen=cross.*"}), kSteps);
  EXPECT_GT(shut.losses.back(), 0.999 * blind);
}

}  // namespace
}  // namespace trireme::train::gated_cross_test
