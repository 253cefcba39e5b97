// Whatever is computed again, in whatever layout, trains the same model, bit for bit.
#include "trireme/plan/compile/recompute.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::train::recompute_test {
namespace {

using config::Job;
using harness::expect_same;
using harness::JobTrace;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 2;
constexpr std::int64_t kVocab = 20000;  // three pieces of logits

const std::vector<Sets> kPolicies = {
    {"recompute.policy=full"},
    {"recompute.policy=selective"},
    {"recompute.policy=selective", "recompute.parts=norms"},
    {"recompute.policy=selective", "recompute.parts=attention"},
    {"recompute.policy=selective", "recompute.parts=mlp"},
    {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"},
    {"recompute.policy=full:2"},
    {"recompute.policy=full:3"},
    {"recompute.policy=full:2", "recompute.nodes=block.[0-2]"},
    {"recompute.policy=full", "recompute.nodes=block.[1-2]"}};

struct Layout {
  const char* name;
  Sets sets;
};
const std::vector<Layout> kLayouts = {
    {"one_rank", {}},
    {"dp2_zero1", {"parallel.zero=1", "parallel.dp_shard=2"}},
    {"dp2_zero3", {"parallel.zero=3", "parallel.dp_shard=2"}},
    {"tp2", {"parallel.tp=2"}},
    {"tp2_whole_rows", {"parallel.tp=2", "parallel.sequence_parallel=false"}},
    {"cp2_ring", {"parallel.cp=2"}},
    {"cp2_all_gather", {"parallel.cp=2", "parallel.context=all_gather"}},
    {"cp2_ulysses", {"parallel.cp=2", "parallel.context=ulysses", "data.documents=true"}},
    {"cp4_hierarchical", {"parallel.cp=4", "parallel.context=hierarchical"}},
    {"pp2_1f1b", {"parallel.pp=2"}},
    {"pp2_zb_h1", {"parallel.pp=2", "parallel.schedule=zb_h1"}},
    {"pp2_zb_v",
     {"parallel.pp=2", "parallel.schedule=zb_v", "parallel.zero=3", "parallel.dp_shard=2"}},
    {"pp2_tp2_zb_h1", {"parallel.pp=2", "parallel.tp=2", "parallel.schedule=zb_h1"}}};

class Recompute : public testing::TestWithParam<Layout> {
 protected:
  static void expect_policies_agree(const Sets& model) {
    for (const char* recipe : {"gpt_tiny.yaml", "llama_tiny.yaml"}) {
      const Sets sets = model + GetParam().sets;
      const JobTrace kept = run_job(harness::six_nodes(recipe, sets), kSteps);
      ASSERT_EQ(kept.losses.size(), static_cast<std::size_t>(kSteps));
      for (const Sets& policy : kPolicies) {
        SCOPED_TRACE(std::string(recipe) + testing::PrintToString(sets + policy));
        expect_same(kept, run_job(harness::six_nodes(recipe, sets + policy), kSteps));
      }
    }
  }
};

TEST_P(Recompute, GivesTheSameBitsInFp32) { expect_policies_agree({"precision.compute=fp32"}); }
TEST_P(Recompute, GivesTheSameBitsInBf16) { expect_policies_agree({"precision.compute=bf16"}); }

INSTANTIATE_TEST_SUITE_P(Layouts, Recompute, testing::ValuesIn(kLayouts),
                         [](const auto& one) { return std::string(one.param.name); });

// Three pieces of a vocabulary, on one rank and two of each of two.
TEST(RecomputeLogits, GiveTheSameBitsUnderEveryPolicy) {
  const Sets large = {fmt::format("model.vocab={}", kVocab)};
  for (const Sets& sets :
       {Sets{"precision.compute=fp32"},
        {"precision.compute=bf16"},
        {"precision.compute=bf16", "parallel.tp=2"},
        {"precision.compute=fp32", "parallel.tp=2", "parallel.sequence_parallel=false"},
        {"precision.compute=bf16", "parallel.zero=3", "parallel.dp_shard=2"},
        {"precision.compute=bf16", "parallel.pp=2", "parallel.schedule=zb_h1"}}) {
    const JobTrace kept = run_job(harness::six_nodes("gpt_tiny.yaml", large + sets), kSteps);
    SCOPED_TRACE(testing::PrintToString(sets));
    for (const Sets& policy :
         {Sets{"recompute.logits=true"},
          {"recompute.policy=selective", "recompute.parts=logits"},
          {"recompute.logits=true", "recompute.policy=full"},
          {"recompute.logits=true", "recompute.policy=selective", "recompute.parts=mlp"}})
      expect_same(kept,
                  run_job(harness::six_nodes("gpt_tiny.yaml", large + sets + policy), kSteps));
  }
}

// What the numbers of a model are kept in makes no difference to it.
TEST(RecomputePrecision, GivesTheSameBits) {
  for (const Sets& precision :
       {Sets{"precision.compute=fp16"},
        {"precision.compute=bf16", "precision.master=bf16"},
        {"precision.compute=bf16", "optim.states=int8"},
        {"precision.compute=bf16", "precision.nodes=block.*=fp32,block.0=bf16"}}) {
    const JobTrace kept = run_job(harness::six_nodes("gpt_tiny.yaml", precision), kSteps);
    for (const Sets& policy : kPolicies) {
      SCOPED_TRACE(testing::PrintToString(precision + policy));
      expect_same(kept, run_job(harness::six_nodes("gpt_tiny.yaml", precision + policy), kSteps));
    }
  }
}

// What the plan of one rank takes, and what it computes again: "" for nothing.
struct Account {
  std::int64_t bytes;
  std::string recomputed;
};

Account account_of(const Sets& sets) {
  const Job job =
      config::resolve(harness::six_nodes("llama_tiny.yaml", sets), 1, {.vocab = kVocab});
  const model::ModelSpec model = model::describe(job);
  const plan::PlanSet plan =
      plan::compile(model.program, model::mesh_of(job), model::recipe_of(job), grid_of(job, model));
  return {plan::memory_account(plan, 0).peak_of_tensors(), plan::recomputation_text(plan.program)};
}

Sets within(std::int64_t bytes) {
  return {"recompute.policy=auto", fmt::format("recompute.memory={}", bytes)};
}

TEST(RecomputeAuto, GivesTheSameBits) {
  const Sets large = {fmt::format("model.vocab={}", kVocab)};
  const JobTrace kept = run_job(harness::six_nodes("llama_tiny.yaml", large), kSteps);
  const Account all = account_of(large);
  const Account least = account_of(large + Sets{"recompute.policy=full", "recompute.logits=true"});
  ASSERT_LT(least.bytes, all.bytes);
  const auto expect_fitting = [&](std::int64_t bytes) {
    SCOPED_TRACE(bytes);
    expect_same(kept,
                run_job(harness::six_nodes("llama_tiny.yaml", large + within(bytes)), kSteps));
    const Account chosen = account_of(large + within(bytes));
    EXPECT_LE(chosen.bytes, bytes);
    return chosen.recomputed;
  };
  EXPECT_EQ(expect_fitting(all.bytes), "");
  EXPECT_NE(expect_fitting(all.bytes - 1), "");
  EXPECT_NE(expect_fitting((all.bytes + least.bytes) / 2), "");
  EXPECT_NE(expect_fitting(least.bytes), "");
  // Parameters, gradients and states do not fit into a tenth.
  EXPECT_THROW(
      run_job(harness::six_nodes("llama_tiny.yaml", large + within(least.bytes / 10)), kSteps),
      Error);
}

}  // namespace
}  // namespace trireme::train::recompute_test
