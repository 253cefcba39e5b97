// Packed rows, balanced batches and kept features train the same vision-language model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/harness/scratch_directory.h"
#include "tests/harness/small_jobs.h"
#include "tests/harness/watched_runs.h"
#include "tests/train/vlm_jobs.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/samples_source.h"
#include "trireme/formats/feature_store.h"
#include "trireme/train/job_session.h"

namespace trireme::train::vlm_rows_test {
namespace {

using harness::NamedLayout;
using harness::Sets;
using harness::operator+;
using ::testing::HasSubstr;

config::Job rows_job(const Sets& sets) { return small_vlm(Sets{"model.seq_len=96"} + sets); }

void expect_parity(const Sets& sets, const std::vector<NamedLayout>& layouts) {
  harness::expect_parity([&](const Sets& layout) { return rows_job(sets + layout); }, layouts);
}

TEST(PackedRows, TrainTheSameModelUnderEveryLayout) {
  expect_parity({"vlm.pack=true", "vlm.mrope=2,1,1", "model.qk_norm=true"}, harness::kLayouts);
  expect_parity({"vlm.pack=true", "projector.kind=perceiver", "projector.queries=3",
                 "projector.layers=1", "projector.heads=1", "run.micro_batch=2"},
                {harness::kZero3, harness::kPpDp});
}

// Loss and gradient norm of some steps on a global batch that `load` gives, of one rank.
std::vector<double> losses_on(const config::Job& job, const JobSession::Load& load) {
  std::vector<double> numbers;
  const config::Job resolved = config::resolve(job, 1, {});
  comm::run_local_ranks(1, 60, [&](comm::World& rank) {
    JobSession session(resolved, rank);
    for (int step = 0; step < 3; ++step) {
      const exec::StepResult result = session.train(step, false, load);
      numbers.insert(numbers.end(), {result.loss, result.grad_norm});
      for (const exec::Counts::Count& count : result.counts) numbers.push_back(count.of);
    }
  });
  return numbers;
}

// Oracle 13: one row of eight samples against eight rows of one, with and without M-RoPE.
TEST(PackedRows, AreTheirSamplesOneByOne) {
  for (const Sets& sets : {Sets{}, Sets{"vlm.mrope=2,1,1"}}) {
    const Sets roomy = sets + Sets{"model.seq_len=400"};
    const config::Job packed = config::resolve(
        rows_job(roomy + Sets{"vlm.pack=true", "run.global_batch=1", "data.samples=8"}), 1, {});
    const config::Job padded = config::resolve(rows_job(roomy), 1, {});
    const loaders::Sources sources = loaders::open_questions(packed);
    ASSERT_EQ(sources.train->samples(), 1);
    const double weight = sources.train->weight(0, 1);
    const std::vector<double> one =
        losses_on(packed, {[&](std::int64_t) { return sources.train->batch(0, 1); },
                           [&](std::int64_t, std::int64_t) { return weight; }});
    const std::vector<double> eight =
        losses_on(padded, {[&](std::int64_t first) {
                             return loaders::questions_batch(padded, std::vector{first % 8});
                           },
                           [&](std::int64_t, std::int64_t) { return weight; }});
    ASSERT_EQ(one.size(), eight.size());
    EXPECT_EQ(one[2], 8);  // answers
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(one[i], eight[i], 1e-12 * std::abs(eight[i])) << i;
  }
}

TEST(BalancedBatches, TrainTheSameModelAsTheyWereDrawn) {
  for (const Sets& sets : {Sets{}, Sets{"vlm.pack=true", "model.frozen=vision.*"}}) {
    const harness::JobTrace drawn = harness::run_job(rows_job(sets), 2);
    for (const NamedLayout& layout : harness::kLayouts) {
      const harness::JobTrace balanced =
          harness::run_job(rows_job(sets + layout.sets + Sets{"vlm.balance=true"}), 2);
      EXPECT_LT(harness::distance(drawn, balanced), 1e-12) << layout.name;
    }
  }
}

const Sets kFrozen = {"model.frozen=vision.*", "data.samples=16"};

Sets kept_in(const harness::ScratchDirectory& scratch) {
  return kFrozen + Sets{"vlm.features=" + scratch.path().string()};
}

std::vector<Path> entries(const harness::ScratchDirectory& scratch) {
  std::vector<Path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scratch.path()))
    if (entry.is_regular_file()) files.push_back(entry.path());
  return files;
}

// Runs with features of a directory that is empty, full and half full have the same bits, and are the run without them.
// Returns how far from the latter. Two steps see all samples, the others read what these kept.
double apart_with_features(const Sets& sets) {
  const harness::ScratchDirectory scratch;
  const config::Job job = rows_job(kept_in(scratch) + sets);
  const harness::JobTrace cold = harness::run_job(job, 4);
  harness::expect_same(cold, harness::run_job(job, 4));
  const std::vector<Path> kept = entries(scratch);
  EXPECT_GT(kept.size(), 10U);
  for (std::size_t i = 0; i < kept.size(); i += 2) std::filesystem::remove(kept[i]);
  harness::expect_same(cold, harness::run_job(job, 4));
  EXPECT_EQ(entries(scratch).size(), kept.size());
  return harness::distance(harness::run_job(rows_job(kFrozen + sets), 4), cold);
}

TEST(KeptFeatures, GiveTheSameBitsWhetherTheyAreComputedOrRead) {
  EXPECT_LT(apart_with_features({"precision.compute=fp64"}), 1e-12);
  EXPECT_LT(apart_with_features({"precision.compute=fp32"}), 1e-3);
  EXPECT_LT(apart_with_features({"precision.compute=bf16"}), 5e-2);
}

TEST(KeptFeatures, GiveTheSameBitsUnderEveryLayout) {
  for (NamedLayout layout : harness::kLayouts) {
    if (layout.sets[0] == "parallel.pp=2")  // the whole tower in the first stage
      layout.sets.push_back("parallel.stages=4,4");
    for (const Sets& rows : {Sets{}, Sets{"vlm.pack=true", "run.micro_batch=2"}}) {
      SCOPED_TRACE(layout.name + (": " + harness::print(rows)));
      EXPECT_LT(apart_with_features(layout.sets + rows), 1e-12);
    }
  }
}

// Of earlier layers too, whose projectors train.
TEST(KeptFeatures, OfEveryLayerThatIsReadTrainTheSameModel) {
  const Sets deep = {"vlm.deepstack=0,1", "vision.layers=3", "run.micro_batch=2"};
  for (const Sets& sets :
       {deep, deep + Sets{"vlm.layer=1"}, deep + Sets{"parallel.tp=2", "parallel.dp_shard=2"},
        deep + Sets{"recompute.policy=full"}, deep + Sets{"model.frozen=vision.*,deepstack.*"}}) {
    SCOPED_TRACE(harness::print(sets));
    EXPECT_LT(apart_with_features(sets), 1e-12);
  }
}

TEST(KeptFeatures, OfEveryLayerThatIsReadAreAsManyAsOfTheLast) {
  const harness::ScratchDirectory one, three;
  harness::run_job(rows_job(kept_in(one)), 2);
  harness::run_job(rows_job(kept_in(three) + Sets{"vision.layers=4", "vlm.deepstack=0,2"}), 2);
  EXPECT_EQ(entries(three).size(), 3 * entries(one).size());
}

TEST(KeptFeatures, AreReadAndNotComputedWhereTheyAreThere) {
  const harness::ScratchDirectory scratch;
  const config::Job job = rows_job(kept_in(scratch));
  const harness::JobTrace right = harness::run_job(job, 4);
  for (const Path& file : entries(scratch)) {
    const std::string name = file.filename().string();
    const formats::ContentHash input{.high = std::stoull(name.substr(0, 16), nullptr, 16),
                                     .low = std::stoull(name.substr(16), nullptr, 16)};
    const std::uint64_t network =
        std::stoull(file.parent_path().parent_path().filename().string(), nullptr, 16);
    formats::FeatureStore(scratch.path(), network)
        .keep(input, std::vector<std::byte>(std::filesystem::file_size(file) - 40));
  }
  const harness::JobTrace zeros = harness::run_job(job, 4);
  EXPECT_NE(right.losses, zeros.losses);
  EXPECT_LT(harness::distance(harness::run_job(rows_job(kFrozen), 4), right), 1e-12);
}

TEST(KeptFeatures, DamagedEntriesAreComputedAgain) {
  const harness::ScratchDirectory scratch;
  const config::Job job = rows_job(kept_in(scratch) + Sets{"parallel.tp=2"});
  const harness::JobTrace right = harness::run_job(job, 4);
  for (const Path& file : entries(scratch)) std::filesystem::resize_file(file, 50);
  harness::expect_same(right, harness::run_job(job, 4));
  harness::expect_same(right, harness::run_job(job, 4));
}

TEST(KeptFeatures, OfOtherWeightsAreOtherEntries) {
  const harness::ScratchDirectory scratch;
  harness::run_job(rows_job(kept_in(scratch)), 2);
  const std::size_t count = entries(scratch).size();
  harness::run_job(rows_job(kept_in(scratch)), 2);
  EXPECT_EQ(entries(scratch).size(), count);
  harness::run_job(rows_job(kept_in(scratch) + Sets{"run.seed=2"}), 2);
  EXPECT_EQ(entries(scratch).size(), 2 * count);
}

TEST(KeptFeatures, OfATowerThatIsCutAreRefused) {
  const harness::ScratchDirectory scratch;
  try {
    harness::run_job(rows_job(kept_in(scratch) + Sets{"parallel.pp=2", "parallel.stages=2,6"}), 1);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("vision.block.1"));
    EXPECT_THAT(error.what(), HasSubstr("parallel.stages"));
  }
}

// The whole of train::train() on threads; `resume` may be empty.
void train_on(int ranks, const config::Job& job, const Path& out, const Path& resume,
              harness::Watch& watch) {
  const TrainSetup setup{.job = config::resolve(job, ranks, {}),
                         .dataset = {},
                         .out = out,
                         .resume = resume,
                         .build_id = "test"};
  std::filesystem::create_directories(out);
  comm::run_local_ranks(ranks, 120, [&](comm::World& world) {
    Callbacks callbacks;
    if (world.rank() == 0) callbacks.push_back(std::make_unique<harness::Watching>(watch));
    train(setup, world, callbacks);
  });
}

TEST(KeptFeatures, ThatAreDamagedAreToldWithTheirFile) {
  const harness::ScratchDirectory features, runs;
  const config::Job job = rows_job(kept_in(features) + Sets{"run.steps=2"});
  harness::Watch first, second;
  train_on(1, job, runs / "first", {}, first);
  EXPECT_TRUE(first.faults.empty());
  const std::vector<Path> kept = entries(features);
  for (const Path& file : kept) std::filesystem::resize_file(file, 50);
  train_on(1, job, runs / "second", {}, second);
  EXPECT_EQ(first.losses, second.losses);
  ASSERT_FALSE(second.faults.empty());
  for (const formats::Event& fault : second.faults) {
    EXPECT_EQ(fault.kind, "damaged feature");
    EXPECT_EQ(fault.action, "recomputed");
    EXPECT_THAT(fault.cause, HasSubstr(features.path().string()));
  }
}

TEST(PackedRows, AResumedRunGoesOnUnderAnotherLayout) {
  const harness::ScratchDirectory runs;
  const Sets sets = {"vlm.pack=true", "vlm.balance=true", "run.steps=4", "checkpoint.every=2"};
  harness::Watch whole, resumed;
  train_on(1, rows_job(sets), runs / "whole", {}, whole);
  train_on(4, rows_job(sets + Sets{"parallel.dp_shard=4", "parallel.zero=3"}), runs / "resumed",
           runs / "whole/checkpoints/step-2", resumed);
  EXPECT_EQ(resumed.losses.size(), 2U);
  for (const auto& [step, loss] : resumed.losses)
    EXPECT_NEAR(loss, whole.losses.at(step), 1e-12 * loss) << step;
}

}  // namespace
}  // namespace trireme::train::vlm_rows_test
