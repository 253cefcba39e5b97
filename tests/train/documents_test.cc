// Documents of unlike lengths over context-parallel ranks: equal work, and the losses of one rank.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <random>

#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/cut_tokens.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/ops/attention/context.h"
#include "trireme/ops/attention/mask.h"
#include "trireme/train/job_session.h"

namespace trireme::train::documents_test {
namespace {

using harness::Sets;
using harness::operator+;

constexpr int kDocuments = 308, kRanks = 8, kSteps = 2;
constexpr std::int64_t kMultiple = kRanks * 128;

// Lengths of the documents of a sample, log-normal. The last is longer, so that chunks of many sizes exist.
std::vector<std::int64_t> lengths() {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> length(std::log(12.0), 1.0);
  std::vector<std::int64_t> all;
  std::int64_t tokens = 0;
  for (int i = 0; i < kDocuments; ++i)
    tokens += all.emplace_back(1 + static_cast<std::int64_t>(length(random)));
  all.back() += kMultiple - tokens % kMultiple;
  return all;
}

at::Tensor positions() {
  std::vector<at::Tensor> all;
  for (const std::int64_t length : lengths()) all.push_back(at::arange(length, at::kLong));
  return at::cat(all).unsqueeze(0);
}

std::vector<at::Tensor> batch(const config::Job& job, std::int64_t first) {
  std::vector<at::Tensor> inputs =
      loaders::random_tokens(first, 1, job.model.seq_len, job.model.vocab);
  inputs.push_back(positions());
  return inputs;
}

config::Job job_of(const Sets& sets) {
  config::Job job = harness::small_llama(DType::kF64, Sets{"data.documents=true"} + sets);
  job.model.seq_len = positions().size(1);
  job.run.micro_batch = job.run.global_batch = 1;
  return config::resolve(job, job.parallel.cp, {});
}

struct Trained {
  std::vector<double> losses;
  double imbalance = 0;
};
Trained train(const config::Job& job) {
  Trained trained;
  comm::run_local_ranks(job.parallel.cp, 60, [&](comm::World& world) {
    JobSession session(job, world);
    for (int step = 0; step < kSteps; ++step) {
      const double loss =
          session.train(step, false, [&](std::int64_t first) { return batch(job, first); }).loss;
      if (world.rank() == 0) trained.losses.push_back(loss);
    }
    if (world.rank() == 0) trained.imbalance = session.cp_imbalance();
  });
  return trained;
}

// Scores of all layers that the mask leaves each rank's queries: the most over the mean.
double counted(const config::Job& job, const mesh::TokenLayout& layout) {
  const std::int64_t tokens = layout.tokens;
  const at::Tensor begin = (at::arange(tokens, at::kLong) - positions()).contiguous();
  std::int64_t most = 0, all = 0;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    std::int64_t own = 0;
    for (const config::LayerAttention& layer : config::layer_attention(job.model)) {
      const ops::Mask mask = ops::Mask::causal({.begin = ops::shard_tokens(begin, 1, layout, rank)},
                                               layer.window > 0 ? layer.window - 1 : -1);
      own += ops::count_scores(mask.rows(1, layout.tokens_of(rank), tokens), 0,
                               ops::token_segments(layout, rank), ops::Segments{{.tokens = tokens}})
                 .seen;
    }
    most = std::max(most, own);
    all += own;
  }
  return static_cast<double>(most * layout.ranks()) / static_cast<double>(all);
}

void expect_equal_work(const Sets& model, const std::vector<std::string>& methods) {
  SCOPED_TRACE(harness::print(model));
  const Trained one = train(job_of(model));
  for (const std::string& method : methods) {
    SCOPED_TRACE(method);
    const config::Job job = job_of(model + Sets{"parallel.cp=8", "parallel.context=" + method});
    const Trained spread = train(job);
    for (std::size_t step = 0; step < kSteps; ++step)
      EXPECT_LT(std::abs(spread.losses[step] / one.losses[step] - 1), 1e-12);
    EXPECT_LE(spread.imbalance, 1.05);
    EXPECT_GT(counted(job, mesh::zigzag(job.model.seq_len, kRanks)), 1.2);
    if (method == "hierarchical") continue;  // whose neighbours count as one rank
    EXPECT_DOUBLE_EQ(spread.imbalance,
                     counted(job, loaders::token_layout(job, batch(job, 0)).layout));
  }
}

TEST(Documents, HaveEqualWorkOnEightRanksAndTheLossesOfOne) {
  expect_equal_work({"model.layers=1"}, {"ring", "hierarchical"});
  expect_equal_work({"model.attention_layers=sliding:40,full"}, {"all_gather"});
}

}  // namespace
}  // namespace trireme::train::documents_test
