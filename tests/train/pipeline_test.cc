// Every pipeline schedule trains the model that one rank trains, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::train::pipeline_test {
namespace {

using config::Job;
using harness::expect_same;
using harness::JobTrace;
using harness::print;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 2;
constexpr const char* kSchedules[] = {"gpipe", "1f1b",    "interleaved", "zb_h1",
                                      "zb_h2", "zb_auto", "zb_v",        "v_half",
                                      "v_min", "v_auto",  "dualpipe_v"};

// Eight nodes: embedding, six blocks, head.
Job small(const std::string& recipe, const Sets& sets) {
  return harness::job_of(
      recipe,
      {"model.layers=6", "model.hidden=16", "model.heads=2", "model.seq_len=8",
       "precision.compute=fp64", "run.global_batch=16", "run.micro_batch=1", "run.eval_every=-1",
       "optim.warmup_steps=0", "optim.eps=1e-4", "parallel.dp_shard=1"},
      sets);
}

class Pipeline : public testing::TestWithParam<const char*> {
 protected:
  // One rank's run of a model.
  const JobTrace& reference(const std::string& recipe, const Sets& model) {
    static std::map<std::string, JobTrace> runs;
    const std::string key = recipe + " " + print(model);
    const auto found = runs.find(key);
    if (found != runs.end()) return found->second;
    return runs.emplace(key, run_job(small(recipe, model), kSteps)).first->second;
  }
  Sets schedule(int pp) const {
    return {fmt::format("parallel.pp={}", pp), fmt::format("parallel.schedule={}", GetParam())};
  }
  void expect_reference(const std::string& recipe, const Sets& model, const Sets& layout) {
    SCOPED_TRACE(recipe + ": " + print(model) + "| " + print(layout));
    expect_same(reference(recipe, model), run_job(small(recipe, model + layout), kSteps));
  }
};

TEST_P(Pipeline, UntiedEqualsOneRank) {
  for (int pp : {2, 4}) expect_reference("llama_tiny.yaml", {"model.tied=false"}, schedule(pp));
  // Three ranks take twelve micro-batches under every schedule.
  expect_reference("gpt_tiny.yaml", {"model.tied=false", "run.global_batch=12"}, schedule(3));
}

TEST_P(Pipeline, RecomputedEqualsOneRank) {
  expect_reference("gpt_tiny.yaml", {"model.tied=false"},
                   schedule(4) + Sets{"recompute.policy=full"});
}

TEST_P(Pipeline, WithEveryZeroRowEqualsOneRank) {
  for (int zero : {0, 1, 2, 3})
    expect_reference(
        "gpt_tiny.yaml", {"model.tied=false"},
        schedule(2) + Sets{fmt::format("parallel.zero={}", zero), "parallel.dp_shard=2"});
  expect_reference("gpt_tiny.yaml", {"model.tied=false", "run.global_batch=32"},
                   schedule(2) + Sets{"parallel.zero=3", "parallel.dp_shard=2",
                                      "parallel.dp_replicate=2", "recompute.policy=full"});
}

// Gradients of a tied embedding are added up chunk by chunk, as one rank with two chunks adds them.
TEST_P(Pipeline, TiedEqualsTheSameSumsOnOneRank) {
  const Sets two_chunks = {"parallel.schedule=interleaved", "parallel.virtual_stages=2"};
  const JobTrace one = run_job(small("gpt_tiny.yaml", two_chunks), kSteps);
  for (int pp : {2, 4}) {
    const JobTrace trace = run_job(small("gpt_tiny.yaml", schedule(pp)), kSteps);
    SCOPED_TRACE(pp);
    expect_same(one, trace);
    EXPECT_LT(harness::distance(reference("gpt_tiny.yaml", {}), trace), 1e-12);
  }
}

// Ranks are added before chunks by every row, so that the embedding has the sums of one rank with two chunks.
TEST_P(Pipeline, TiedEqualsTheSameSumsUnderEveryRow) {
  const Sets two_chunks = {"parallel.schedule=interleaved", "parallel.virtual_stages=2"};
  const JobTrace one = run_job(small("gpt_tiny.yaml", two_chunks), kSteps);
  for (int zero : {0, 1, 2, 3}) {
    const Sets row = {fmt::format("parallel.zero={}", zero)};
    SCOPED_TRACE(print(row));
    const auto expect_one = [&](const Sets& layout) {
      expect_same(one, run_job(small("gpt_tiny.yaml", row + layout), kSteps));
    };
    expect_one(schedule(2) + Sets{"parallel.dp_shard=2"});
    expect_one(schedule(2) + Sets{"parallel.dp_shard=2", "parallel.dp_replicate=2"});
    expect_one(two_chunks + Sets{"parallel.dp_shard=2"});
    expect_one(two_chunks + Sets{"parallel.dp_replicate=2"});
  }
}

TEST_P(Pipeline, WithTensorAndContextRanksEqualsOneRank) {
  for (const Sets& axes : {Sets{"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=1"},
                           Sets{"parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=3"}}) {
    SCOPED_TRACE(print(axes));
    const JobTrace trace = run_job(small("llama_tiny.yaml", schedule(2) + axes), kSteps);
    EXPECT_LT(harness::distance(reference("llama_tiny.yaml", {}), trace), 1e-12);
  }
}

// Every row of the lifetime table on 2, 3 and 4 stages, recomputed or not, tied or not. Six micro-batches of a rank are no
// power of two: with several of them bits may differ in the last place.
TEST_P(Pipeline, EveryCombinationEqualsOneRank_slow) {
  for (int pp : {2, 3, 4})
    for (int zero : {0, 1, 2, 3})
      for (const char* policy : {"none", "full"})
        for (const char* tied : {"false", "true"}) {
          const Sets model = {std::string("model.tied=") + tied,
                              pp == 3 ? "run.global_batch=12" : "run.global_batch=16"};
          const Sets layout =
              schedule(pp) + Sets{std::string("recompute.policy=") + policy,
                                  fmt::format("parallel.zero={}", zero),
                                  zero > 0 ? "parallel.dp_shard=2" : "parallel.dp_shard=1"};
          SCOPED_TRACE(print(model) + "| " + print(layout));
          const JobTrace& one = reference("gpt_tiny.yaml", model);
          const JobTrace trace = run_job(small("gpt_tiny.yaml", model + layout), kSteps);
          EXPECT_LT(harness::distance(one, trace), 1e-12);
          if (std::string(tied) == "false" && (pp != 3 || zero == 0)) expect_same(one, trace);
        }
}

TEST_P(Pipeline, EvaluationEqualsOneRanks) {
  const double expected = harness::evaluate_job(small("gpt_tiny.yaml", {}))[0];
  EXPECT_THAT(harness::evaluate_job(small("gpt_tiny.yaml", schedule(4))), testing::Each(expected));
}

INSTANTIATE_TEST_SUITE_P(Schedules, Pipeline, testing::ValuesIn(kSchedules),
                         [](const auto& one) { return std::string("s_") + one.param; });

}  // namespace
}  // namespace trireme::train::pipeline_test
