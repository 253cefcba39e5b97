// H-V-JEPA gives one result under every layout, whatever its chunks are.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "tests/config/error_of.h"
#include "tests/harness/jobs.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/data/loaders/source.h"
#include "trireme/model/families/describe.h"
#include "trireme/train/job_session.h"

namespace trireme::train::hvjepa_test {
namespace {

using config::Family;
using harness::distance;
using harness::JobTrace;
using harness::run_job;
using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

constexpr int kSteps = 2;

JobTrace run(const Sets& sets) {
  return run_job(harness::vjepa_job(Family::kHvjepa, sets), kSteps);
}

const JobTrace& reference() {
  static const JobTrace kTrace = run({});
  return kTrace;
}

const Sets kVicreg = {"vicreg.weight=0.5", "vicreg.widths=[8, 8]", "run.micro_batch=8"};

Sets with_vicreg(const Sets& more) {
  Sets sets = kVicreg;
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

const JobTrace& vicreg_reference() {
  static const JobTrace kTrace = run(kVicreg);
  return kTrace;
}

TEST(Hvjepa, DataParallelismEqualsOneRank) {
  for (const Sets& layout : {Sets{"run.micro_batch=4"}, Sets{"parallel.dp_shard=2"},
                             Sets{"parallel.dp_shard=4", "parallel.zero=3"}})
    EXPECT_LT(distance(reference(), run(layout)), 1e-12) << testing::PrintToString(layout);
}

TEST(Hvjepa, TensorParallelismEqualsOneRank) {
  EXPECT_LT(distance(reference(), run({"parallel.tp=2"})), 1e-12);
}

TEST(Hvjepa, PipelinesEqualOneRank) {
  EXPECT_LT(distance(reference(), run({"parallel.pp=2", "run.micro_batch=2"})), 1e-12);
}

// Cut behind every node whose teacher stays with it.
TEST(Hvjepa, PipelinesCutAnywhereEqualOneRank) {
  const config::Job job = config::resolve(harness::vjepa_job(Family::kHvjepa), 1, {});
  const auto nodes = static_cast<int>(model::describe(job).program.nodes.size());
  int cuts = 0;
  for (int first = 1; first < nodes; ++first) {
    JobTrace trace;
    try {
      trace = run({"parallel.pp=2", "run.micro_batch=2",
                   fmt::format("parallel.stages={},{}", first, nodes - first)});
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("place their users on one stage"));
      continue;
    }
    EXPECT_LT(distance(reference(), trace), 1e-12) << first;
    ++cuts;
  }
  EXPECT_GE(cuts, 6);
}

// Oracle 16: statistics are of the global batch, wherever its samples are.
TEST(Hvjepa, VicregOverRanksEqualsOneRank) {
  EXPECT_NE(vicreg_reference().losses[0], reference().losses[0]);
  for (const char* ranks : {"2", "4"}) {
    const Sets layout = with_vicreg({fmt::format("parallel.dp_shard={}", ranks),
                                     fmt::format("run.micro_batch={}", 8 / std::atoi(ranks))});
    EXPECT_LT(distance(vicreg_reference(), run(layout)), 1e-12) << ranks;
  }
}

// Which matches there are, and what statistics are of, is the same in every layout. Masks leave every view 6 chunks or more.
TEST(Hvjepa, EveryKindOfVicregOverRanksEqualsOneRank) {
  const Sets many = with_vicreg({"chunk.mode=topk", "chunk.ratio=2", "jepa.masks=1x0.2,1x0.25"});
  const auto with = [](Sets sets, const Sets& more) {
    sets.insert(sets.end(), more.begin(), more.end());
    return sets;
  };
  std::set<double> losses;
  for (const Sets& kind : {Sets{"vicreg.feature_matches=0"}, Sets{"vicreg.statistics=pooled"},
                           Sets{"vicreg.feature_matches=2"}, Sets{"vicreg.widths=[8, 12]"}}) {
    const Sets whole = with(many, kind);
    const JobTrace one = run(whole);
    EXPECT_TRUE(losses.insert(one.losses[0]).second) << testing::PrintToString(kind);
    for (const Sets& layout : {Sets{"parallel.dp_shard=2", "run.micro_batch=4"},
                               Sets{"parallel.dp_shard=4", "run.micro_batch=1", "parallel.zero=3",
                                    "parallel.schedule=gpipe"}})
      EXPECT_LT(distance(one, run(with(whole, layout))), 1e-12) << testing::PrintToString(kind);
  }
  // 0 is all that there are: no clip has more than 32.
  EXPECT_TRUE(losses.contains(run(with(many, {"vicreg.feature_matches=32"})).losses[0]));
}

// A held-out batch whose last samples only fill it up: what was made of these weighs nothing. Five clips in a batch of
// eight, on one rank and on ranks of which one has nothing else, have the loss of a batch of five.
TEST(Hvjepa, CopiesThatFillUpABatchWeighNothing) {
  const auto held_out = [](const Sets& sets, std::int64_t there) {
    Sets all = with_vicreg(sets);
    const config::Job unresolved = harness::vjepa_job(Family::kHvjepa, all);
    const int world = static_cast<int>(unresolved.parallel.dp_shard);
    const config::Job job = config::resolve(unresolved, world, {});
    std::vector<double> result;
    std::mutex mutex;
    comm::run_local_ranks(world, 60, [&](comm::World& rank) {
      JobSession session(job, rank);
      const loaders::Sources sources = loaders::open_sources(job, {});
      const JobSession::Load load(
          [&](std::int64_t first) {
            std::vector<at::Tensor> batch = sources.held_out->batch(first, job.run.micro_batch);
            for (std::int64_t i = 0; i < job.run.micro_batch; ++i)
              if (first + i >= there) loaders::forget_targets({batch.data() + 1, 4}, i);
            return batch;
          },
          [&](std::int64_t, std::int64_t) { return static_cast<double>(there); });
      const exec::StepResult evaluated = session.evaluate(0, 0, load);
      if (rank.rank() > 0) return;
      const std::lock_guard lock(mutex);
      result = {evaluated.loss, evaluated.counts[0].sum, evaluated.counts[0].of,
                evaluated.counts[1].sum, evaluated.counts[1].of};
    });
    return result;
  };
  const std::vector<double> five = held_out({"run.global_batch=5", "run.micro_batch=5"}, 5);
  for (const Sets& layout : {Sets{}, Sets{"parallel.dp_shard=4", "run.micro_batch=2"},
                             Sets{"run.micro_batch=2", "parallel.schedule=gpipe"}}) {
    const std::vector<double> filled = held_out(layout, 5);
    ASSERT_EQ(filled.size(), five.size());
    for (std::size_t i = 0; i < five.size(); ++i)
      EXPECT_NEAR(filled[i], five[i], 1e-12 * five[i]) << i << testing::PrintToString(layout);
  }
  EXPECT_GT(std::abs(held_out({}, 8)[0] - five[0]), 1e-6);
}

// Statistics of all micro-batches of a rank, beside predictions of each.
TEST(Hvjepa, VicregOverMicroBatchesEqualsOne) {
  const Sets cached = with_vicreg({"parallel.schedule=gpipe"});
  for (const Sets& layout :
       {Sets{"run.micro_batch=2"}, Sets{"run.micro_batch=4", "recompute.policy=full"},
        Sets{"parallel.dp_shard=2", "run.micro_batch=2"},
        Sets{"parallel.dp_shard=2", "run.micro_batch=1", "parallel.zero=3"},
        Sets{"parallel.pp=2", "run.micro_batch=4"},
        Sets{"parallel.pp=2", "parallel.dp_shard=2", "run.micro_batch=2",
             "recompute.policy=full"}}) {
    Sets sets = cached;
    sets.insert(sets.end(), layout.begin(), layout.end());
    EXPECT_LT(distance(vicreg_reference(), run(sets)), 1e-12) << testing::PrintToString(layout);
  }
}

TEST(Hvjepa, EveryModeAndComputeTypeTrains) {
  for (const char* mode : {"topk", "fixed"})
    EXPECT_NE(run({fmt::format("chunk.mode={}", mode)}).losses[0], reference().losses[0]) << mode;
  for (const char* type : {"fp32", "bf16"})
    EXPECT_NEAR(run({fmt::format("precision.compute={}", type)}).losses[0], reference().losses[0],
                3e-2 * reference().losses[0])
        << type;
}

TEST(Hvjepa, WhatItCannotUseIsRefused) {
  const auto refusal = [](const Sets& sets, int world = 1) {
    return config::usage_error_of(
        [&] { config::resolve(harness::vjepa_job(Family::kHvjepa, sets), world, {}); });
  };
  EXPECT_THAT(refusal({"chunk.mode=fixed", "chunk.ratio=3"}),
              HasSubstr("as chunk.mode=fixed needs"));
  EXPECT_THAT(refusal({"chunk.heads=8"}), HasSubstr("chunk.heads=8"));
  EXPECT_THAT(refusal({"vicreg.weight=1"}), HasSubstr("The statistics of vicreg.weight > 0"));
  EXPECT_THAT(refusal({"vicreg.weight=1", "run.global_batch=1"}), HasSubstr("2 or more"));
  EXPECT_THAT(refusal({"vicreg.weight=1"}), HasSubstr("Set parallel.schedule=gpipe"));
  EXPECT_THAT(refusal({"data.source=arm"}), HasSubstr("data.source=squares"));
  EXPECT_THAT(refusal({"vision.positions=learned"}), HasSubstr("set vision.positions=rotary"));
}

// Acceptance of the recipe: chunks are neither all of a clip nor its tokens, and features do not collapse.
TEST(HvjepaRecipe, KeepsItsFeaturesApart_slow) {
  const config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes/hvjepa_tiny.yaml");
  const JobTrace trace = run_job(job, 100);
  const auto metric = [&](std::size_t step, std::size_t which) {
    const exec::Counts::Count& count = trace.counts.at(step).at(which);
    return count.sum / count.of;
  };
  const double apart = metric(99, 0), ratio = metric(99, 1);
  for (const std::size_t step : {0, 19, 39, 59, 79, 99})
    fmt::print("step {}: loss {:.4f}, teacher std {:.4f}, chunks of tokens {:.4f}\n", step + 1,
               trace.losses[step], metric(step, 0), metric(step, 1));
  EXPECT_GT(apart, 0.55);
  EXPECT_GT(ratio, 0.12);
  EXPECT_LT(ratio, 0.30);
}

}  // namespace
}  // namespace trireme::train::hvjepa_test
