// A data source: a copying task. docs/extending.md quotes it.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>
#include <gtest/gtest.h>

#include "tests/extending/runs.h"
#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::extending::source_test {
namespace {

using harness::Sets;
using harness::operator+;

// [source]
// Copying: half a sample of random tokens, then the same tokens, which alone are targets.
class Copying final : public loaders::Source {
 public:
  // Samples `first` .. `first + samples - 1` of all that the seed gives.
  Copying(const config::Job& job, std::int64_t first, std::int64_t samples)
      : model_(job.model), seed_(job.data.seed), first_(first), samples_(samples) {
    if (model_.seq_len % 2 != 0)
      fail(ErrorKind::kUsage,
           "model.seq_len={}: half of a sample is copied, so that its length is even. Set "
           "model.seq_len={}.",
           model_.seq_len, model_.seq_len + 1);
  }

  std::int64_t samples() const override { return samples_; }
  double weight(std::int64_t, std::int64_t count) const override {
    return static_cast<double>(count * half());
  }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    const at::Tensor words = at::empty({count, half()}, at::TensorOptions().dtype(at::kLong));
    for (std::int64_t row = 0; row < count; ++row) {
      loaders::Draws draws(seed_, first_ + first + row);  // of this sample, on any rank
      for (std::int64_t i = 0; i < half(); ++i)
        words.data_ptr<std::int64_t>()[row * half() + i] = draws.below(model_.vocab);
    }
    const at::Tensor tokens = at::cat({words, words}, 1);
    const at::Tensor targets = at::full_like(tokens, loaders::kIgnoredTarget);
    targets.narrow(1, half() - 1, half()).copy_(words);
    return {tokens, targets};
  }

 private:
  std::int64_t half() const { return model_.seq_len / 2; }

  config::Model model_;
  std::int64_t seed_, first_, samples_;
};

loaders::Sources open_copying(const config::Job& job) {
  const std::int64_t all = job.data.samples, held_out = job.run.global_batch;
  return {.train = std::make_unique<Copying>(job, 0, all),
          .held_out = std::make_unique<Copying>(job, all, held_out),
          .digest = "copying, version 1"};
}
// [end]

config::Job job_of(const Sets& sets) {
  const Sets small = {"run.steps=6", "data.samples=16", "optim.lr=1e-2", "optim.warmup_steps=0",
                      "checkpoint.every=3"};
  return harness::small_llama(DType::kF32, small + sets);
}

TEST(OwnSource, GivesEverySampleByItsNumber) {
  const config::Job job = job_of({});
  const loaders::Sources copying = open_copying(job);
  const std::vector<at::Tensor> all = copying.train->batch(0, 8), two = copying.train->batch(5, 2);
  for (std::size_t input = 0; input < all.size(); ++input)
    EXPECT_TRUE(at::equal(all[input].narrow(0, 5, 2), two[input]));
  const auto targets = all[1].ne(loaders::kIgnoredTarget).sum().item<double>();
  EXPECT_EQ(copying.train->weight(0, 8), targets);
  EXPECT_FALSE(at::equal(all[0].narrow(0, 0, 4), copying.held_out->batch(0, 4)[0]));
}

TEST(OwnSource, RefusesAnOddLength) {
  EXPECT_THROW(open_copying(job_of({"model.seq_len=15"})), Error);
}

TEST(OwnSource, TrainsWithTheSameBitsUnderEveryDataParallelLayout) {
  OwnRun one{.job = job_of({}), .sources = open_copying};
  one.train();
  EXPECT_EQ(one.losses.size(), 6u);
  EXPECT_EQ(one.evals.size(), 1u);
  for (const Sets& layout :
       {Sets{"parallel.dp_shard=4"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"}}) {
    OwnRun other{.job = job_of(layout), .sources = open_copying};
    other.train();
    EXPECT_EQ(one.losses, other.losses) << harness::print(layout);
    EXPECT_EQ(one.evals, other.evals) << harness::print(layout);
  }
}

TEST(OwnSource, ResumesWithTheNextSample) {
  OwnRun whole{.job = job_of({}), .sources = open_copying};
  whole.train();
  OwnRun resumed{.job = job_of({}), .sources = open_copying};
  resumed.resume = whole.checkpoint(3);
  resumed.train();
  ASSERT_EQ(resumed.losses.size(), 3u);
  for (const auto& [step, loss] : resumed.losses) EXPECT_EQ(loss, whole.losses.at(step)) << step;
}

}  // namespace
}  // namespace trireme::extending::source_test
