// Small jobs of a recipe with keys set, and their runs compared bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/harness/jobs.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::harness {

using Sets = std::vector<std::string>;

inline Sets operator+(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::string print(const Sets& sets) {
  std::string text;
  for (const std::string& set : sets) text += set + " ";
  return text;
}

// Of a recipe, with what makes it small and then `sets`; a GPT has dropout.
inline config::Job job_of(const std::string& recipe, const Sets& small, const Sets& sets) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / recipe);
  for (const std::string& set : small) config::apply_set(job, set);
  if (job.model.family == config::Family::kGpt) job.model.dropout = 0.1;
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

// Six nodes: embedding, four blocks, head.
inline config::Job six_nodes(const std::string& recipe, const Sets& sets) {
  return job_of(recipe,
                {"model.layers=4", "model.hidden=32", "model.heads=4", "model.seq_len=16",
                 "run.global_batch=8", "run.micro_batch=1", "run.eval_every=-1",
                 "optim.warmup_steps=0", "parallel.dp_shard=1", "model.tied=false"},
                sets);
}

// Two blocks of Llama, of which every data-parallel rank of four has a row.
inline config::Job small_llama(DType compute, const Sets& sets) {
  config::Job job;
  job.model = {.family = config::Family::kLlama,
               .layers = 2,
               .hidden = 32,
               .heads = 4,
               .kv_heads = 2,
               .ffn = 48,
               .vocab = 64,
               .seq_len = 16};
  job.precision.compute = compute;
  job.run.global_batch = 4;
  job.parallel.dp_shard = 1;
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

struct NamedLayout {
  std::string name;
  Sets sets;
};

// What every family is held to.
inline const NamedLayout kDp4{"dp 4", {"parallel.dp_shard=4"}};
inline const NamedLayout kZero3{"ZeRO-3", {"parallel.dp_shard=4", "parallel.zero=3"}};
inline const NamedLayout kTp2{"tp 2", {"parallel.tp=2"}};
inline const NamedLayout kPp2{"pp 2", {"parallel.pp=2"}};
inline const NamedLayout kTpDp{"tp 2, dp 2", {"parallel.tp=2", "parallel.dp_shard=2"}};
inline const NamedLayout kPpDp{"pp 2, dp 2", {"parallel.pp=2", "parallel.dp_shard=2"}};
inline const std::vector<NamedLayout> kLayouts = {kDp4, kZero3, kTp2, kPp2, kTpDp, kPpDp};

// Named by their keys.
inline std::vector<NamedLayout> named(const std::vector<Sets>& layouts) {
  std::vector<NamedLayout> all;
  for (const Sets& sets : layouts) all.push_back({print(sets), sets});
  return all;
}

// Metrics of every step, but for the rounding of sums.
inline void expect_same_counts(const JobTrace& one, const JobTrace& other) {
  ASSERT_EQ(one.counts.size(), other.counts.size());
  for (std::size_t step = 0; step < one.counts.size(); ++step)
    for (std::size_t metric = 0; metric < one.counts[step].size(); ++metric) {
      const exec::Counts::Count &a = one.counts[step][metric], &b = other.counts[step][metric];
      EXPECT_EQ(a.of, b.of) << "metric " << metric;
      EXPECT_NEAR(a.sum, b.sum, 1e-9 * std::abs(a.sum)) << "metric " << metric;
    }
}

// Two steps of what `make` gives for each layout are those of one rank, to `tight`, with every state, and count the same.
// Returns the latter.
template <typename Make>
JobTrace expect_parity(const Make& make, const std::vector<NamedLayout>& layouts,
                       double tight = 1e-12) {
  constexpr int kSteps = 2;
  const JobTrace one = run_job(make(Sets{}), kSteps);
  EXPECT_GT(one.grad_norms[0], 0);
  for (const NamedLayout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    const JobTrace other = run_job(make(layout.sets), kSteps);
    EXPECT_LT(distance(one, other), tight);
    expect_same_counts(one, other);
  }
  return one;
}

// The same bits: losses, norms and every state, on every rank that holds them.
inline void expect_same(const JobTrace& one, const JobTrace& other) {
  EXPECT_EQ(one.losses, other.losses);
  EXPECT_EQ(one.grad_norms, other.grad_norms);
  EXPECT_EQ(other.replicas_apart, 0);
  ASSERT_EQ(one.states.size(), other.states.size());
  for (const auto& [name, state] : one.states) EXPECT_EQ(state, other.states.at(name)) << name;
}

}  // namespace trireme::harness
