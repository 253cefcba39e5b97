// Muon: whole matrices are updated by one rank each, and any layout trains with the bits of one rank.
#include <gtest/gtest.h>

#include "tests/harness/preferences.h"
#include "tests/harness/scratch.h"
#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/memory.h"
#include "trireme/train/job_session.h"

namespace trireme::train::muon_test {
namespace {

using harness::expect_same;
using harness::JobTrace;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 3;

const Sets kMuon = {"optim.name=muon", "model.tied=false"};

const std::vector<Sets> kLayouts = {
    {"parallel.dp_replicate=2"},
    {"parallel.dp_shard=2", "parallel.zero=0"},
    {"parallel.dp_shard=4", "parallel.zero=0"},
    {"parallel.dp_shard=2", "parallel.zero=1"},
    {"parallel.dp_shard=4", "parallel.zero=1"},
    {"parallel.dp_shard=2", "parallel.zero=2"},
    {"parallel.dp_shard=4", "parallel.zero=2", "recompute.policy=full"},
    {"parallel.dp_shard=2", "parallel.zero=3"},
    {"parallel.dp_shard=4", "parallel.zero=3"},
    {"parallel.dp_shard=4", "parallel.zero=3", "recompute.policy=full"},
    {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=1"},
    {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=3"},
    {"parallel.pp=2"},
    {"parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=1"},
    {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.dp_shard=2", "parallel.zero=1"},
    {"offload.optimizer=host"},
    {"offload.optimizer=host", "parallel.dp_shard=2", "parallel.zero=1"},
    {"offload.optimizer=host", "offload.params=host", "parallel.dp_shard=2", "parallel.zero=3"},
    {"offload.optimizer=host", "offload.params=host", "offload.grads=host", "parallel.dp_shard=2",
     "parallel.zero=2"}};

void expect_bits(const Sets& sets, DType compute) {
  const JobTrace one = run_job(harness::small_llama(compute, kMuon + sets), kSteps);
  EXPECT_NE(one.states,
            run_job(harness::small_llama(compute, {"model.tied=false"}), kSteps).states);
  for (const Sets& layout : kLayouts) {
    SCOPED_TRACE(harness::print(sets + layout));
    expect_same(one, run_job(harness::small_llama(compute, kMuon + sets + layout), kSteps));
  }
}

TEST(MuonRuns, AnyLayoutGivesTheSameBits) {
  expect_bits({}, DType::kF32);
  expect_bits({"optim.newton_schulz=polar", "optim.update_scale=original", "optim.momentum=0.9"},
              DType::kBF16);
}

TEST(MuonRuns, GroupsHaveOptimizersOfTheirOwn) {
  expect_bits({"optim.groups=[{match: \"*.mlp.*\", name: lion, lr_mult: 0.1}, {match: "
               "\"*.o_proj.*\", name: adamw}]"},
              DType::kF32);
  const JobTrace by_group = run_job(
      harness::small_llama(DType::kF32,
                           {"model.tied=false", "optim.groups=[{match: \"block.*\", name: muon}]"}),
      kSteps);
  expect_same(by_group, run_job(harness::small_llama(DType::kF32, kMuon), kSteps));
}

// Matrices between embedding and head have one state, a moment; other parameters AdamW's two.
TEST(MuonRuns, MatricesHaveAMomentAndOthersAdamWsStates) {
  const JobTrace trace = run_job(harness::small_llama(DType::kF32, kMuon), 1);
  int moments = 0, others = 0;
  for (const auto& [name, values] : trace.states) {
    const bool matrix =
        name.find("_proj") != std::string::npos && name.find("layers") != std::string::npos;
    if (name.ends_with(" momentum")) {
      ++moments;
      EXPECT_TRUE(matrix) << name;
    }
    if (name.ends_with(" exp_avg_sq")) {
      ++others;
      EXPECT_FALSE(matrix) << name;
    }
  }
  EXPECT_EQ(moments, 2 * 7);
  EXPECT_EQ(others, 2 * 2 + 3);
}

// What units hold, in every line, is what the plan says.
TEST(MuonRuns, UnitsHoldWhatTheMemoryAccountSays) {
  for (const DType compute : {DType::kF32, DType::kBF16})
    for (const Sets& layout : kLayouts) {
      SCOPED_TRACE(harness::print(layout));
      const config::Job job = harness::resolved(harness::small_llama(compute, kMuon + layout));
      comm::run_local_ranks(harness::world_of(job), 60, [&](comm::World& rank) {
        JobSession session(job, rank);
        session.train(0, false, [&](std::int64_t first) {
          return loaders::random_tokens(first, job.run.micro_batch, job.model.seq_len,
                                        job.model.vocab, false);
        });
        std::int64_t peak = 0;
        const plan::MemoryAccount account =
            plan::memory_account(session.session().plan(), rank.rank());
        for (const plan::MemoryPoint& point : account.at_line) {
          std::int64_t sum = 0;
          for (int kind = 0; kind < plan::kMemoryKinds; ++kind)
            if (kind != static_cast<int>(plan::MemoryKind::kActivations) &&
                kind != static_cast<int>(plan::MemoryKind::kWork) &&
                kind != static_cast<int>(plan::MemoryKind::kHost))
              sum += point[kind];
          peak = std::max(peak, sum);
        }
        EXPECT_EQ(session.session().units().memory().peak, peak) << "rank " << rank.rank();
      });
    }
}

// Fused queries, keys and values are three matrices, as those that are apart.
TEST(MuonRuns, FusedMatricesAreUpdatedApart) {
  const auto gpt = [](const Sets& layout) {
    return run_job(harness::six_nodes("gpt_tiny.yaml", Sets{"optim.name=muon"} + layout), 2);
  };
  const JobTrace one = gpt({});
  for (const Sets& layout :
       {Sets{"parallel.dp_shard=2", "parallel.zero=3"}, Sets{"parallel.dp_shard=4"}}) {
    SCOPED_TRACE(harness::print(layout));
    expect_same(one, gpt(layout));
  }
}

// Linear layers in blocks are Muon's, and nothing else: neither output layers, whatever reads them, nor adapters.
TEST(MuonRuns, UpdatesLayersOfBlocks) {
  const auto matrices = [](const Sets& sets) {
    const model::ModelSpec spec =
        model::describe(harness::resolved(harness::small_llama(DType::kF32, kMuon + sets)));
    std::size_t count = 0;
    for (const plan::Unit& unit : spec.program.units) {
      if (!unit.by_matrix) continue;
      EXPECT_TRUE(unit.name.starts_with("block.")) << unit.name;
      count += unit.matrices.size();
    }
    return count;
  };
  EXPECT_EQ(matrices({}), 2u * 7);
  // Their output layer writes no loss.
  const harness::ScratchDirectory directory;
  harness::prepared_preferences(directory, "pairs", harness::pairs(8));
  EXPECT_EQ(matrices({"data.source=preferences", "data.path=" + (directory / "pairs").string(),
                      "data.chat=phi4_mini", "model.vocab=256"}),
            2u * 7);
  EXPECT_EQ(matrices({"model.frozen=block.0"}), 7u);
  EXPECT_THROW(matrices({"lora.rank=4"}), Error);
  const model::ModelSpec gpt =
      model::describe(harness::resolved(harness::six_nodes("gpt_tiny.yaml", {"optim.name=muon"})));
  for (const plan::Unit& unit : gpt.program.units) {
    if (unit.by_matrix) {
      EXPECT_EQ(unit.matrices.size(), 6u) << unit.name;
    }
  }
}

// A teacher follows units that are divided.
TEST(MuonRuns, AveragesFollowDividedUnits) {
  const Sets small = {"optim.name=muon", "run.global_batch=4", "run.micro_batch=1"};
  const auto jepa = [&](const Sets& layout) {
    return run_job(harness::job_of("vjepa_tiny.yaml", small, layout), 2);
  };
  const JobTrace one = jepa({"parallel.dp_shard=1"});
  expect_same(one, jepa({"parallel.dp_shard=2", "parallel.zero=3"}));
}

}  // namespace
}  // namespace trireme::train::muon_test
