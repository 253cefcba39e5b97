// H-Nets train the same under every layout that they take, down to where chunks begin.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tests/harness/jobs.h"
#include "trireme/config/job.h"

namespace trireme::train::hnet_test {
namespace {

using harness::distance;
using harness::JobTrace;
using harness::run_job;
using Sets = std::vector<std::string>;

constexpr int kSteps = 2;

Sets operator+(Sets sets, const Sets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

config::Job hnet_job(const Sets& model, const Sets& layout = {}, DType compute = DType::kF64) {
  config::Job job;
  job.model = {.family = config::Family::kHnet, .vocab = 64, .seq_len = 24};
  job.hnet = {
      .layout = "T1,[T1],T1", .hidden = "16,32", .heads = "2,4", .ffn = "24,40", .ratio = "3"};
  job.data.source = config::DataSource::kText;  // of random tokens
  job.optim.lr = 1e-2;
  job.precision.compute = compute;
  job.run.global_batch = 8;
  job.run.micro_batch = 2;
  job.parallel.dp_shard = 1;
  for (const Sets* sets : {&model, &layout})
    for (const std::string& set : *sets) config::apply_set(job, set);
  return job;
}

const Sets kPlain = {};
const Sets kNested = {"hnet.layout=T1,[T1,[T1],t1],T1",
                      "hnet.hidden=16,16,32",
                      "hnet.heads=2,2,4",
                      "hnet.ffn=24,24,40",
                      "hnet.ratio=3,2",
                      "hnet.lr=2,1.5,0.5"};
const Sets kMamba = {"hnet.layout=m1,[T1],m1", "hnet.hidden=64,64", "hnet.ffn=0,40"};
// Outside, three heads of Mamba-2: two ranks have two and one.
const Sets kMambaInside = {"hnet.layout=T1m1,[M1T1],m1", "hnet.hidden=96,192", "hnet.heads=4,4",
                           "hnet.ffn=24,40"};
const Sets kWindowed = {"hnet.window=3,1"};

void expect_same(const Sets& model, const std::vector<Sets>& layouts, double tolerance) {
  const JobTrace one = run_job(hnet_job(model), kSteps);
  EXPECT_GT(one.grad_norms[0], 0);
  const exec::Counts::Count chunks = one.counts[0][1];
  EXPECT_GT(chunks.sum, 8);  // more than one a sample
  EXPECT_LT(chunks.sum, chunks.of);
  for (const Sets& layout : layouts) {
    const std::string where = testing::PrintToString(model) + testing::PrintToString(layout);
    const JobTrace other = run_job(hnet_job(model, layout), kSteps);
    EXPECT_LE(distance(one, other), tolerance) << where;
    for (int step = 0; step < kSteps; ++step)
      for (std::size_t stage = 1; stage < one.counts[0].size(); ++stage) {
        const exec::Counts::Count& a = one.counts[step][stage];
        const exec::Counts::Count& b = other.counts[step][stage];
        EXPECT_EQ(a.sum / a.of, b.sum / b.of) << where;
      }
  }
}

// Bit for bit, but for tp, whose ranks sum products of features in parts.
TEST(HnetJobs, DataParallelLayoutsTrainTheSame) {
  const std::vector<Sets> layouts = {{"parallel.dp_shard=4"},
                                     {"parallel.dp_shard=4", "parallel.zero=3"},
                                     {"parallel.dp_shard=2", "parallel.dp_replicate=2",
                                      "parallel.zero=2", "recompute.policy=full"}};
  for (const Sets& model : {kPlain, kNested, kMamba}) expect_same(model, layouts, 0);
}

TEST(HnetJobs, TensorParallelLayoutsTrainTheSame) {
  const std::vector<Sets> layouts = {{"parallel.tp=2"}, {"parallel.tp=2", "parallel.dp_shard=2"}};
  for (const Sets& model : {kPlain, kNested, kWindowed, kMambaInside})
    expect_same(model, layouts, 1e-12);
  // The two gradients of D, two numbers here, cancel to a hundredth in its first moment, and errors of 1e-13 do not.
  expect_same(kMamba, layouts, 5e-11);
}

// Cuts lie outside and inside of the stages: 8 nodes of the plain model, 13 of the nested one.
TEST(HnetJobs, PipelinesTrainTheSame) {
  expect_same(kPlain,
              {{"parallel.pp=2", "parallel.stages=5,3"},
               {"parallel.pp=2", "parallel.stages=2,6"},
               {"parallel.pp=2", "parallel.stages=3,5", "parallel.dp_shard=2"},
               {"parallel.pp=4", "parallel.zero=0"}},
              0);
  expect_same(kPlain, {{"parallel.pp=2", "parallel.tp=2"}}, 1e-12);
  expect_same(kNested, {{"parallel.pp=2", "parallel.stages=7,6"}, {"parallel.pp=4"}}, 0);
  expect_same(kMamba, {{"parallel.pp=2"}}, 0);
}

// Narrow types sum in another order where micro-batches or features are shared out, so that losses are near each other.
TEST(HnetJobs, TrainInNarrowTypes) {
  for (const Sets& model : {kPlain, kNested, kMamba})
    for (const DType compute : {DType::kF32, DType::kBF16}) {
      const JobTrace one = run_job(hnet_job(model, {}, compute), kSteps);
      const JobTrace exact = run_job(hnet_job(model), kSteps);
      const double tolerance = compute == DType::kF32 ? 1e-4 : 3e-2;
      EXPECT_NEAR(one.losses[0], exact.losses[0], tolerance);
      EXPECT_EQ(
          run_job(hnet_job(model, {"parallel.dp_shard=2", "parallel.zero=3"}, compute), kSteps)
              .states,
          one.states);
      const JobTrace cut = run_job(hnet_job(model, {"parallel.pp=2"}, compute), kSteps);
      EXPECT_EQ(cut.losses, one.losses);
    }
}

// The stream is wider than everything around it: what waits, crosses stages or is computed twice is the same stream.
TEST(HnetJobs, TheWideStreamOfBf16JobsIsTheSameInEveryLayout) {
  const Sets nested = kNested + Sets{"hnet.layout=T1,[T1,[T1T1],t1],m1", "hnet.hidden=64,64,64"};
  const JobTrace one = run_job(hnet_job(nested, {}, DType::kBF16), kSteps);
  for (const Sets& layout : std::vector<Sets>{{"recompute.policy=full"},
                                              {"recompute.policy=full", "offload.activations=host"},
                                              {"parallel.dp_shard=2", "parallel.zero=3"}})
    EXPECT_EQ(run_job(hnet_job(nested, layout, DType::kBF16), kSteps).states, one.states)
        << testing::PrintToString(layout);
  // Gradients of values that cross stages are rounded in other places.
  for (const Sets& layout : std::vector<Sets>{{"parallel.pp=2"}, {"parallel.pp=4"}}) {
    const JobTrace cut = run_job(hnet_job(nested, layout, DType::kBF16), kSteps);
    EXPECT_EQ(cut.losses, one.losses) << testing::PrintToString(layout);
    EXPECT_EQ(cut.states, one.states) << testing::PrintToString(layout);
  }
  for (const Sets& layout : std::vector<Sets>{{"parallel.tp=2"}, {"parallel.cp=2"}}) {
    const JobTrace shared = run_job(hnet_job(nested, layout, DType::kBF16), kSteps);
    EXPECT_NEAR(shared.losses[1], one.losses[1], 2e-2) << testing::PrintToString(layout);
  }
}

// The first step of AdamW without decay moves a parameter by its rate times |g| / (|g| + eps).
TEST(HnetJobs, EveryParameterLearnsAtTheRateOfItsOwnStage) {
  const Sets model = {"hnet.layout=m1T1,[T1,[T1t1],t1m1],T1",
                      "hnet.hidden=32,64,96",
                      "hnet.heads=2,2,4",
                      "hnet.ffn=24,24,40",
                      "hnet.ratio=3,2",
                      "hnet.lr=2.63,1.52,0.71",
                      "optim.lr=0.01",
                      "optim.warmup_steps=0",
                      "optim.schedule=constant",
                      "optim.weight_decay=0",
                      "optim.clip=0"};
  for (const Sets& layout : std::vector<Sets>{
           {}, {"parallel.pp=2", "parallel.zero=1"}, {"parallel.dp_shard=2", "parallel.zero=3"}}) {
    const config::Job job = hnet_job(model, layout);
    const JobTrace before = run_job(job, 0), after = run_job(job, 1);
    int rates[3] = {};
    for (const auto& [name, values] : after.states) {
      if (!name.ends_with(" param")) continue;
      const std::string param = name.substr(0, name.size() - 6);
      const int stage = param.starts_with("backbone.main_network.main_network.") ? 2
                        : param.starts_with("backbone.main_network.")            ? 1
                                                                                 : 0;
      const double rate = std::array{2.63, 1.52, 0.71}[stage];
      const std::vector<double>& moments = after.states.at(param + " exp_avg");
      double most = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double g = std::abs(moments[i]) / (1 - job.optim.betas.front());
        const double moved = std::abs(values[i] - before.states.at(name)[i]);
        EXPECT_NEAR(moved, 0.01 * rate * g / (g + job.optim.eps), 1e-9) << param << layout.size();
        most = std::max(most, moved);
      }
      EXPECT_GT(most, 0.9 * 0.01 * rate) << param;  // of gradients far above eps
      ++rates[stage];
    }
    for (const int count : rates) EXPECT_GT(count, 3);
    EXPECT_TRUE(after.states.contains("backbone.main_network.main_network.pad_dimension param"));
  }
}

// The mean of the model's metrics over a recipe's last ten steps, and of its loss.
struct Ending {
  double loss = 0;
  std::vector<double> metrics;
};
Ending end_of(const std::string& recipe, int ranks) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / recipe);
  job.parallel.dp_shard = ranks;
  const JobTrace trace = run_job(job, static_cast<int>(job.run.steps));
  constexpr std::size_t kLast = 10;
  Ending ending{.metrics = std::vector<double>(trace.counts[0].size())};
  for (std::size_t step = trace.losses.size() - kLast; step < trace.losses.size(); ++step) {
    ending.loss += trace.losses[step] / kLast;
    for (std::size_t metric = 0; metric < ending.metrics.size(); ++metric) {
      const exec::Counts::Count& count = trace.counts[step][metric];
      ending.metrics[metric] += count.sum / count.of / kLast;
    }
  }
  return ending;
}

// What no model gets below is 0.70 nats a byte.
TEST(Recipes, TheTinyHnetLearnsWordsAndWhereChunksBegin_slow) {
  const Ending ending = end_of("hnet_tiny.yaml", 2);
  EXPECT_LT(ending.metrics[0], 0.9);
  EXPECT_GT(ending.metrics[0], 0.6);
  EXPECT_GT(ending.metrics[1], 0.20);
  EXPECT_LT(ending.metrics[1], 0.35);
}

TEST(Recipes, LlamaLearnsAffineSequences_slow) {
  EXPECT_LT(end_of("llama_affine.yaml", 2).loss, 4.4);
}

}  // namespace
}  // namespace trireme::train::hnet_test
