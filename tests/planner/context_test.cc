// Seconds of context parallelism, against closed forms.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/planner/cards.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/estimate.h"

namespace trireme::planner::context_test {
namespace {

using plan::Verb;

constexpr double kLatency = 2e-6;

// Two hosts of four, whose links reach all of their rates.
Cluster two_hosts(double inside, double between) {
  Cluster cluster{.name = "hosts", .gpus_per_host = 4, .hosts = 2};
  cluster.gpu = synthetic_card();
  cluster.tiers = {{.name = "inside", .span = 4, .rate = inside, .latency_s = kLatency},
                   {.name = "between", .rate = between, .latency_s = kLatency}};
  return cluster;
}

config::Job context_job(int cp, const std::string& context) {
  config::Job job;
  job.model = {.layers = 2, .hidden = 1024, .heads = 8, .vocab = 4096, .seq_len = 16384};
  job.precision.compute = DType::kBF16;
  job.parallel.cp = cp;
  job.run.global_batch = job.run.micro_batch = 2;
  config::apply_set(job, "parallel.context=" + context + (context == "hierarchical" ? ":4" : ""));
  return config::resolve(job, cp, {});
}

struct Block {
  double forward, input;
};

Block block_of(const config::Job& job, const Cluster& cluster, const Practice& practice) {
  const model::ModelSpec model = model::describe(job);
  const Pricing pricing(job, model, practice, cluster);
  const plan::Node& block = model.program.nodes[1];
  EXPECT_EQ(block.name, "block.0");
  return {pricing.node(block, Verb::kForward), pricing.node(block, Verb::kBackwardInput)};
}

Block block_of(const config::Job& job, const Cluster& cluster, bool overlaps) {
  return block_of(job, cluster, Practice{.overlaps_context = overlaps});
}

Block attention_of(const config::Job& job, const Cluster& cluster) {
  const Practice practice;
  const NodeKernels kernels = node_kernels(job, practice, "block.0");
  for (const auto& [name, part] : kernels.parts)
    if (name == model::kAttention)
      return {seconds(cluster.gpu, part), seconds(cluster.gpu, kernels.attention_input)};
  ADD_FAILURE() << "no attention";
  return {};
}

constexpr double kNever = 1e18;  // bytes a second: links that cost their latency

// Bytes of a rank's keys and values: 2 samples of 16384 tokens, 1024 wide twice.
double keys(int cp, double element) { return 2.0 * 16384 / cp * 2 * 1024 * element; }

TEST(Context, ARingHidesWhatAttentionTakesLongerThan) {
  for (const double rate : {1e9, 100e9, kNever}) {
    const Cluster cluster = two_hosts(rate, rate), free = two_hosts(kNever, kNever);
    const config::Job job = context_job(4, "ring");
    const Block attention = attention_of(job, cluster);
    const double hop = keys(4, 2) / rate + kLatency, gradients = keys(4, 4) / rate + kLatency;
    const Block alone = block_of(job, free, false), waits = block_of(job, cluster, false),
                beside = block_of(job, cluster, true);
    const double computed = alone.forward - 3 * kLatency;
    const double back = alone.input - 3 * kLatency - 4 * kLatency;
    EXPECT_NEAR(waits.forward, computed + 3 * hop, 1e-6 * waits.forward);
    EXPECT_NEAR(waits.input, back + 3 * hop + 4 * gradients, 1e-6 * waits.input);
    EXPECT_NEAR(beside.forward, computed + 3 * std::max(hop - attention.forward / 4, 0.0),
                1e-6 * beside.forward);
    EXPECT_NEAR(beside.input,
                back + 3 * std::max(hop + gradients - attention.input / 4, 0.0) + gradients,
                1e-6 * beside.input);
  }
}

TEST(Context, RanksThatHelpEachOtherTakeHalfTheTurns) {
  const config::Job job = context_job(4, "ring");
  const Practice helped{.ring_helped = true};
  const Cluster no_links = two_hosts(kNever, kNever);
  const Block attention = attention_of(job, no_links), even = block_of(job, no_links, Practice{}),
              free = block_of(job, no_links, helped);
  // 2.5 blocks where 2 would be even, and a result that goes home.
  EXPECT_NEAR(free.forward - even.forward, attention.forward / 4 + kLatency, 1e-7);
  EXPECT_NEAR(free.input - even.input, attention.input / 4, 1e-7);
  // Of slow links two turns are waited for, and a result: keys and values, in backward with their gradients.
  constexpr double kRate = 1e9;
  const Block slow = block_of(job, two_hosts(kRate, kRate), helped);
  const double kv = keys(4, 2) / kRate, forward = 2 * attention.forward / 4;
  EXPECT_NEAR(slow.forward - free.forward, 2 * kv + kv / 2 - 1.5 * forward, 1e-2 * slow.forward);
  EXPECT_NEAR(slow.input - free.input, 2 * 2 * kv + kv - 1.5 * 2 * attention.input / 4,
              1e-2 * slow.input);
}

TEST(Context, GradientsThatEndAtHomeTravelAsOftenAsKeys) {
  constexpr double kRate = 1e9;
  const config::Job job = context_job(4, "ring");
  const Cluster slow = two_hosts(kRate, kRate);
  const Block returned = block_of(job, slow, Practice{}),
              homeward = block_of(job, slow, Practice{.ring_homeward = true});
  EXPECT_EQ(homeward.forward, returned.forward);
  // Three turns of 4 bytes a value where 6 went, and no last one of 4.
  EXPECT_NEAR(returned.input - homeward.input, 3 * keys(4, 2) / kRate + keys(4, 4) / kRate, 1e-4);
}

TEST(Context, KeptAttentionIsNeitherComputedNorSentAgain) {
  config::Job job = context_job(4, "ring");
  config::apply_set(job, "recompute.policy=full");
  job = config::resolve(job, 4, {});
  const Cluster cluster = two_hosts(1e9, 1e9);
  const model::ModelSpec model = model::describe(job);
  const auto recomputed = [&](bool keeps) {
    const Practice practice{.keeps_attention = keeps};
    return Pricing(job, model, practice, cluster).node(model.program.nodes[1], Verb::kRecompute);
  };
  const Block attention = attention_of(job, cluster), forward = block_of(job, cluster, Practice{});
  EXPECT_EQ(recomputed(false), forward.forward);
  const double waited = 3 * std::max(keys(4, 2) / 1e9 + kLatency - attention.forward / 4, 0.0);
  EXPECT_NEAR(recomputed(false) - recomputed(true), attention.forward + waited, 1e-9);
}

TEST(Context, GatheredKeysAreWaitedFor) {
  constexpr double kRate = 100e9;
  const config::Job job = context_job(4, "all_gather");
  const Block free = block_of(job, two_hosts(kNever, kNever), true),
              block = block_of(job, two_hosts(kRate, kRate), true);
  EXPECT_NEAR(block.forward - free.forward, 3.0 / 4 * 4 * keys(4, 2) / kRate, 1e-9);
  EXPECT_NEAR(block.input - free.input, 3.0 / 4 * 4 * (keys(4, 2) + keys(4, 4)) / kRate, 1e-9);
}

TEST(Context, HeadsAreExchangedTwiceAPass) {
  constexpr double kRate = 100e9;
  const config::Job job = context_job(4, "ulysses");
  const Block free = block_of(job, two_hosts(kNever, kNever), true),
              block = block_of(job, two_hosts(kRate, kRate), true);
  // Queries, keys and values there, results back: four times the width of a rank's tokens.
  const double bytes = 2.0 * 16384 / 4 * 1024 * 4 * 2;
  EXPECT_NEAR(block.forward - free.forward, 3.0 / 4 * bytes / kRate, 1e-9);
  EXPECT_NEAR(block.input - free.input, 3.0 / 4 * bytes / kRate, 1e-9);
}

// Heads stay inside hosts of four, keys and values go between the two.
TEST(Context, AHierarchyUsesTheTierOfEachPart) {
  constexpr double kInside = 100e9, kBetween = 2e9;
  const config::Job job = context_job(8, "hierarchical");
  const Block free = block_of(job, two_hosts(kNever, kNever), false),
              inside = block_of(job, two_hosts(kInside, kNever), false),
              both = block_of(job, two_hosts(kInside, kBetween), false);
  const double heads = 2.0 * 16384 / 8 * 1024 * 4 * 2;
  EXPECT_NEAR(inside.forward - free.forward, 3.0 / 4 * heads / kInside, 1e-9);
  // A rank attends with a quarter of the heads to what four ranks have.
  EXPECT_NEAR(both.forward - inside.forward, keys(8, 2) / kBetween, 1e-9);
}

TEST(Context, TheSimulatedStepHasWhatNodesHave) {
  const Cluster slow = two_hosts(5e9, 5e9), fast = two_hosts(kNever, kNever);
  const config::Job job = context_job(4, "ring");
  const Practice practice;
  const Block with = block_of(job, slow, true), without = block_of(job, fast, true);
  const double apart = with.forward + with.input - without.forward - without.input;
  ASSERT_GT(apart, 0);
  const Candidate candidate(job, practice);
  const double step = candidate.simulate(slow).step_s - candidate.simulate(fast).step_s;
  EXPECT_GT(step, 2 * apart);        // of two blocks, and what shards exchange
  EXPECT_LT(step, 2 * apart + 0.1);  // the gradients of 30M parameters at that rate
}

}  // namespace
}  // namespace trireme::planner::context_test
