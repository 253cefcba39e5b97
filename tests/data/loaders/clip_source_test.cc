#include "trireme/data/loaders/samples/clip_source.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <set>

#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/samples/squares.h"

namespace trireme::loaders::clip_source_test {
namespace {

using config::Family;

config::Job job_of(Family family) {
  return config::resolve(harness::vjepa_job(family, {"data.samples=64"}), 1, {.classes = 8});
}

void expect_equal(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  EXPECT_TRUE(at::equal(a, b));
}

// Whatever batches they are drawn in, samples are the same: layouts draw other batches.
TEST(ClipSource, SamplesDoNotDependOnTheirBatch) {
  for (const Family family : {Family::kJepa, Family::kProbe, Family::kJepaAc}) {
    const Sources sources = open_sources(job_of(family), {});
    const auto whole = sources.train->batch(5, 4), one = sources.train->batch(7, 1);
    expect_equal(whole[0].narrow(0, 2, 1), one[0]);
    if (family == Family::kJepa) continue;
    for (std::size_t i = 1; i < whole.size(); ++i) expect_equal(whole[i].narrow(0, 2, 1), one[i]);
  }
}

TEST(ClipSource, MasksDoNotDependOnTheirBatch) {
  const config::Job job = job_of(Family::kJepa);
  const auto whole = packed_masks(job, 9, 5, 4), one = packed_masks(job, 9, 7, 1);
  for (const std::size_t tokens : {0, 2}) {
    const auto bound = [&](int i) { return whole[tokens + 1][i].item<std::int64_t>(); };
    expect_equal(whole[tokens].narrow(0, bound(4), bound(6) - bound(4)) - 2 * 32, one[tokens]);
    expect_equal(whole[tokens + 1].narrow(0, 4, 3) - bound(4), one[tokens + 1]);
  }
  const std::int64_t rows = whole[0].size(0) + whole[2].size(0);
  EXPECT_EQ(rows, 4 * 2 * 32);
}

// Groups that are cut begin at the multiples of jepa.cut_batch, whichever micro-batches they are read in.
TEST(ClipSource, CutMasksDoNotDependOnTheirBatch) {
  const config::Job job =
      config::resolve(harness::vjepa_job(Family::kJepa, {"jepa.cut_batch=3"}), 1, {});
  const auto lengths = [&](std::int64_t first, std::int64_t count) {
    const auto masks = packed_masks(job, 9, first, count);
    std::vector<std::int64_t> all;
    for (const std::size_t bounds : {1, 3}) {
      const at::Tensor each = masks[bounds].diff();
      for (std::int64_t i = 0; i < each.numel(); ++i) all.push_back(each[i].item<std::int64_t>());
    }
    return all;
  };
  const auto group = lengths(3, 3);  // contexts of three samples, short and long; then targets
  ASSERT_EQ(group.size(), 12);
  for (const std::size_t at : {0, 1, 6, 7}) {
    EXPECT_EQ(group[at], group[at + 2]);
    EXPECT_EQ(group[at], group[at + 4]);
  }
  const auto one = packed_masks(job, 9, 4, 1), all = packed_masks(job, 9, 3, 3);
  const auto bound = [&](int i) { return all[1][i].item<std::int64_t>(); };
  expect_equal(all[0].narrow(0, bound(2), bound(4) - bound(2)) - 32, one[0]);
  EXPECT_LT(all[0].size(0) + all[2].size(0), 3 * 2 * 32) << "something is dropped";
}

// A second epoch has the samples of the first in another order, and other masks.
TEST(ClipSource, EpochsShareSamplesButNoMasks) {
  const Sources sources = open_sources(job_of(Family::kJepa), {});
  std::set<double> first, second;
  for (std::int64_t i = 0; i < 64; ++i) {
    first.insert(sources.train->batch(i, 1)[0].sum().item<double>());
    second.insert(sources.train->batch(64 + i, 1)[0].sum().item<double>());
  }
  EXPECT_EQ(first.size(), 64);
  EXPECT_EQ(first, second);
}

TEST(ClipSource, HeldOutSamplesAreOthersInWholeBatches) {
  const Sources sources = open_sources(job_of(Family::kProbe), {});
  EXPECT_EQ(sources.held_out->samples(), 8);  // a tenth of 64, in batches of 8
  std::set<double> trained;
  for (std::int64_t i = 0; i < 64; ++i)
    trained.insert(sources.train->batch(i, 1)[0].sum().item<double>());
  for (std::int64_t i = 0; i < 8; ++i)
    EXPECT_FALSE(trained.contains(sources.held_out->batch(i, 1)[0].sum().item<double>()));
}

TEST(ClipSource, EveryDirectionComesUp) {
  const Sources sources = open_sources(job_of(Family::kProbe), {});
  const at::Tensor labels = sources.train->batch(0, 64)[1];
  EXPECT_EQ(std::get<0>(at::_unique(labels)).numel(), kDirections);
}

// The states of an arm are sums of its actions.
TEST(ClipSource, ActionsAreDifferencesOfStates) {
  const Sources sources = open_sources(job_of(Family::kJepaAc), {});
  const auto batch = sources.train->batch(0, 8);
  const at::Tensor &actions = batch[1], &states = batch[2];
  EXPECT_EQ(actions.sizes(), (at::IntArrayRef{8, 3, 7}));
  const at::Tensor moved = states.narrow(1, 0, 2) + actions.narrow(1, 0, 2);
  EXPECT_TRUE(at::allclose(moved, states.narrow(1, 1, 2), 0, 1e-6));
  EXPECT_GT(actions.narrow(2, 0, 3).abs().min().item<double>(), 0);
  EXPECT_EQ(actions.narrow(2, 3, 4).abs().max().item<double>(), 0);
}

}  // namespace
}  // namespace trireme::loaders::clip_source_test
