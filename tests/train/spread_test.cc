// Tensor, sequence and context parallelism train the model that one rank trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/harness/jobs.h"
#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::train::spread_test {
namespace {

using config::Family;
using config::Job;
using harness::distance;
using harness::JobTrace;
using harness::run_job;

constexpr int kSteps = 2;

Job tiny(Family family, DType compute) {
  Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" /
                             (family == Family::kGpt ? "gpt_tiny.yaml" : "llama_tiny.yaml"));
  job.precision.compute = compute;
  job.run.global_batch = 4;
  job.run.micro_batch = 1;
  job.run.eval_every = -1;
  job.optim.warmup_steps = 0;
  job.optim.eps = 1e-4;  // else Adam divides rounding by the root of a gradient that is hardly more
  job.parallel.dp_shard = 1;
  if (family == Family::kGpt) job.model.dropout = 0.1;  // noise must not know the layout either
  return job;
}

Job with(Job job, const std::vector<std::string>& sets) {
  for (const std::string& set : sets) config::apply_set(job, set);
  return job;
}

std::string print(const std::vector<std::string>& sets) {
  std::string text;
  for (const std::string& set : sets) text += set + " ";
  return text;
}

struct Case {
  std::vector<std::string> model;   // of both sides
  std::vector<std::string> layout;  // of one
};

class Spread : public testing::TestWithParam<Family> {
 protected:
  void expect_equal(const std::vector<Case>& cases, DType type, double tolerance) {
    for (const Case& each : cases) {
      SCOPED_TRACE(print(each.model) + "| " + print(each.layout));
      const Job one = with(tiny(GetParam(), type), each.model);
      EXPECT_LT(distance(run_job(one, kSteps), run_job(with(one, each.layout), kSteps)), tolerance);
    }
  }
};

TEST_P(Spread, OverTensorRanksEqualsOneRank) {
  expect_equal({{{}, {"parallel.tp=2"}},
                {{}, {"parallel.tp=2", "parallel.sequence_parallel=false"}},
                {{}, {"parallel.tp=3"}},
                {{}, {"parallel.tp=3", "parallel.sequence_parallel=false"}},
                {{}, {"parallel.tp=4"}},
                {{"model.vocab=127", "model.seq_len=23"}, {"parallel.tp=2"}},
                {{"model.vocab=127", "model.seq_len=23", "run.micro_batch=2"}, {"parallel.tp=4"}},
                {{"model.vocab=31123", "model.layers=1"}, {"parallel.tp=3"}},
                {{"model.tied=false"}, {"parallel.tp=4", "parallel.sequence_parallel=false"}},
                {{"recompute.policy=full"}, {"parallel.tp=2"}},
                {{"recompute.logits=true"}, {"parallel.tp=2"}}},
               DType::kF64, 1e-12);
}

TEST_P(Spread, OverContextRanksEqualsOneRank) {
  for (const char* method : {"ring", "all_gather", "ulysses"}) {
    const std::string context = fmt::format("parallel.context={}", method);
    expect_equal({{{}, {"parallel.cp=2", context}},
                  {{}, {"parallel.cp=4", context}},
                  {{"run.micro_batch=2"}, {"parallel.cp=2", "parallel.zero=3", context}}},
                 DType::kF64, 1e-12);
  }
  expect_equal({{{}, {"parallel.cp=4", "parallel.context=hierarchical"}}}, DType::kF64, 1e-12);
}

TEST_P(Spread, DocumentsTravelWithTheirTokens) {
  for (const char* method : {"ring", "all_gather", "ulysses"})
    expect_equal({{{"data.documents=true", "run.micro_batch=2"},
                   {"parallel.cp=2", fmt::format("parallel.context={}", method)}}},
                 DType::kF64, 1e-12);
  expect_equal({{{"data.documents=true", "model.seq_len=22", "run.micro_batch=2"},
                 {"parallel.tp=4", "parallel.zero=1"}},
                {{"data.documents=true"}, {"parallel.tp=2", "parallel.sequence_parallel=false"}},
                {{"data.documents=true", "recompute.policy=full"},
                 {"parallel.tp=2", "parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=3"}}},
               DType::kF64, 1e-12);
  // Chunks that balance them; noise and adapters know the places of tokens.
  for (const char* method : {"ring", "all_gather", "hierarchical"})
    expect_equal({{{"data.documents=true", "model.seq_len=256", "run.micro_batch=2"},
                   {"parallel.cp=4", fmt::format("parallel.context={}", method)}}},
                 DType::kF64, 1e-12);
  expect_equal({{{"data.documents=true", "model.seq_len=128", "lora.rank=2", "lora.dropout=0.1"},
                 {"parallel.cp=2", "parallel.tp=2", "recompute.policy=full"}}},
               DType::kF64, 1e-12);
  // They matter.
  const Job one = tiny(GetParam(), DType::kF64);
  EXPECT_GT(distance(run_job(one, 1), run_job(with(one, {"data.documents=true"}), 1)), 1e-3);
}

TEST_P(Spread, OverSeveralAxesEqualsOneRank) {
  expect_equal({{{}, {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
                {{}, {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=1"}},
                {{}, {"parallel.tp=2", "parallel.cp=2", "parallel.dp_replicate=2"}},
                {{}, {"parallel.tp=2", "parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=2"}},
                {{}, {"parallel.tp=2", "parallel.cp=2", "parallel.context=ulysses"}},
                {{"run.micro_batch=2"},
                 {"parallel.tp=2", "parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=3"}}},
               DType::kF64, 1e-12);
}

TEST_P(Spread, EvaluationEqualsOneRanks) {
  const Job one = tiny(GetParam(), DType::kF64);
  const double expected = harness::evaluate_job(one)[0];
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.tp=2", "parallel.cp=2"},
        {"parallel.tp=2", "parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3",
         "recompute.logits=true"},
        {"parallel.tp=2", "parallel.cp=2", "parallel.dp_shard=2", "run.micro_batch=2"}}) {
    SCOPED_TRACE(print(layout));
    EXPECT_THAT(harness::evaluate_job(with(one, layout)),
                testing::Each(testing::DoubleNear(expected, 1e-12 * expected)));
  }
}

// Adam moves by lr whatever a gradient's size, also where it is rounding alone: states may part, losses not.
TEST_P(Spread, SinglePrecisionStaysWithinItsRounding) {
  constexpr int kMany = 20;
  const Job one = tiny(GetParam(), DType::kF32);
  const JobTrace reference = run_job(one, kMany);
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{"parallel.tp=2"}, {"parallel.tp=2", "parallel.cp=2"}}) {
    JobTrace trace = run_job(with(one, layout), kMany);
    EXPECT_EQ(trace.replicas_apart, 0);
    trace.states.clear();
    EXPECT_LT(distance({reference.losses, reference.grad_norms}, trace), 1e-5) << print(layout);
  }
}

// What parity must see, by far more than rounding.
TEST(SpreadControls, BrokenRunsAreFarOff) {
  const Job one = tiny(Family::kGpt, DType::kF64);
  const JobTrace reference = run_job(one, kSteps);
  EXPECT_GT(distance(reference, run_job(with(one, {"parallel.tp=2", "run.seed=2"}), kSteps)), 1e-6);
  EXPECT_GT(
      distance(reference,
               run_job(with(one, {"parallel.cp=2", "model.rope_theta=10000", "model.dropout=0.2"}),
                       kSteps)),
      1e-6);
}

INSTANTIATE_TEST_SUITE_P(Models, Spread, testing::Values(Family::kGpt, Family::kLlama),
                         [](const auto& info) {
                           return info.param == Family::kGpt ? "gpt" : "llama";
                         });

// Key-value heads that several ranks read: kept by each, their gradients added.
TEST(SpreadHeads, MayBeFewerThanRanksOrUneven) {
  for (const auto& [heads, kv_heads, tp] : std::vector<std::array<int, 3>>{
           {8, 2, 4}, {8, 1, 3}, {6, 3, 2}, {6, 2, 4}, {12, 4, 5}, {5, 5, 2}})
    for (const char* sequence : {"true", "false"}) {
      const std::vector<std::string> model = {
          fmt::format("model.heads={}", heads), fmt::format("model.kv_heads={}", kv_heads),
          fmt::format("model.hidden={}", 8 * heads), "model.layers=1"};
      const std::vector<std::string> layout = {
          fmt::format("parallel.tp={}", tp),
          fmt::format("parallel.sequence_parallel={}", sequence)};
      SCOPED_TRACE(print(model) + print(layout));
      const Job one = with(tiny(Family::kLlama, DType::kF64), model);
      EXPECT_LT(distance(run_job(one, kSteps), run_job(with(one, layout), kSteps)), 1e-12);
    }
}

// Random models on random meshes of up to eight ranks.
TEST(SpreadProperty, AnyLayoutTrainsTheSameModel_slow) {
  std::mt19937_64 random(11);
  const auto pick = [&](std::initializer_list<int> from) {
    return *(from.begin() + random() % from.size());
  };
  int cases = 0;
  int meshes[2] = {0, 0};  // with tp, with cp
  while (cases < 200) {
    const int tp = pick({1, 2, 3, 4});
    const int cp = pick({1, 2, 3, 4, 6, 8});
    const int shard = pick({1, 2});
    const int replicate = pick({1, 1, 2});
    if (tp * cp * shard * replicate > 8 || tp * cp == 1) continue;
    const Family family = std::array{Family::kGpt, Family::kLlama, Family::kNeox}[pick({0, 1, 2})];
    const int heads = pick({4, 5, 6, 8});
    const int group = family == Family::kLlama ? pick({1, 2, 3, 4}) : 1;
    if (heads % group != 0) continue;
    Job one = tiny(family, DType::kF64);
    one.model = {.family = family,
                 .layers = pick({1, 2}),
                 .hidden = heads * pick({4, 8}),
                 .heads = heads,
                 .kv_heads = heads / group,
                 .ffn = pick({24, 33, 64}),
                 .vocab = pick({31, 64, 127}),
                 .seq_len = 2 * cp * pick({1, 2, 3, 5}),
                 .tied = pick({0, 1}) == 0,
                 .dropout = family == Family::kGpt && pick({0, 1}) == 0 ? 0.2 : 0.0};
    if (family == Family::kNeox) one.neox.rotary_fraction = 0.5;
    one.run.micro_batch = pick({1, 2});
    one.run.global_batch = one.run.micro_batch * shard * replicate * pick({1, 2});
    if (pick({0, 1}) == 0) one.recompute.policy = config::RecomputePolicy::kFull;
    one.recompute.logits = pick({0, 1}) == 0;
    Job spread = one;
    spread.parallel.tp = tp;
    spread.parallel.cp = cp;
    spread.parallel.dp_shard = shard;
    spread.parallel.dp_replicate = replicate;
    spread.parallel.zero = pick({0, 1, 2, 3});
    spread.parallel.sequence_parallel = pick({0, 1}) == 0;
    spread.parallel.context = static_cast<config::ContextMethod>(pick({0, 1, 2, 3}));
    spread.parallel.context_inner = pick({2, 3, 4});
    try {
      config::resolve(spread, tp * cp * shard * replicate, {});
    } catch (const Error&) {
      continue;  // a method this cp or these heads do not allow
    }
    SCOPED_TRACE(config::print_yaml(spread));
    ASSERT_LT(distance(run_job(one, 1), run_job(spread, 1)), 1e-11);
    ++cases;
    meshes[0] += tp > 1;
    meshes[1] += cp > 1;
  }
  EXPECT_GT(meshes[0], 50);
  EXPECT_GT(meshes[1], 50);
}

}  // namespace
}  // namespace trireme::train::spread_test
