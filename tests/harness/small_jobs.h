// Small jobs of a recipe with keys set, and their runs compared bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/jobs.h"
#include "trireme/config/resolve.h"

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
                 "run.global_batch=8", "run.micro_batch=1", "run.eval_every=0",
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
  const char* name;
  Sets sets;
};

// Two steps of what `make` gives for each layout are those of one rank, to 1e-12, with every state. Returns the latter.
template <typename Make>
JobTrace expect_parity(const Make& make, const std::vector<NamedLayout>& layouts) {
  constexpr int kSteps = 2;
  const JobTrace one = run_job(make(Sets{}), kSteps);
  for (const NamedLayout& layout : layouts)
    EXPECT_LT(distance(one, run_job(make(layout.sets), kSteps)), 1e-12) << layout.name;
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
