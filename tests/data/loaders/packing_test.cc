// Samples that share rows, and rows that are shared out evenly over ranks.
#include "trireme/data/loaders/tokens/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/balance.h"
#include "trireme/data/loaders/samples/synthetic.h"
#include "trireme/families/vlm/model.h"

namespace trireme::loaders::packing_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr Outline kRoom{.tokens = 100, .tiles = 8};

// One to 60 tokens, none to three tiles.
std::vector<Outline> drawn_samples(std::int64_t count) {
  std::vector<Outline> samples;
  for (std::int64_t i = 0; i < count; ++i)
    samples.push_back({.tokens = 1 + Draws(5, i).below(60), .tiles = Draws(6, i).below(4)});
  return samples;
}

TEST(Packing, EverySampleIsInOneRowOnceAndRowsAreNearlyFull) {
  const std::vector<Outline> samples = drawn_samples(1000);
  const std::vector<PackedRow> rows = pack_rows(samples, kRoom, 3);
  std::multiset<std::int64_t> seen;
  std::int64_t tokens = 0;
  for (const PackedRow& row : rows) {
    Outline sum;
    for (const std::int64_t sample : row) {
      sum.tokens += samples[sample].tokens;
      sum.tiles += samples[sample].tiles;
    }
    EXPECT_LE(sum.tokens, kRoom.tokens);
    EXPECT_LE(sum.tiles, kRoom.tiles);
    EXPECT_GT(row.size(), 0U);
    tokens += sum.tokens;
    seen.insert(row.begin(), row.end());
  }
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), 1000U);
  EXPECT_GT(static_cast<double>(tokens), 0.93 * 100 * static_cast<double>(rows.size()));
  EXPECT_EQ(rows, pack_rows(samples, kRoom, 3));
  EXPECT_NE(rows, pack_rows(samples, kRoom, 4));
}

TEST(Packing, WhatHasNoLengthOrNoRoomIsLeftOut) {
  EXPECT_THAT(pack_rows(std::vector<Outline>{}, kRoom, 1), IsEmpty());
  const std::vector<Outline> samples = {{0, 0}, {101, 1}, {1, 9}, {100, 8}};
  EXPECT_THAT(pack_rows(samples, kRoom, 1), ElementsAre(ElementsAre(3)));
}

config::Job vlm_job(const std::vector<std::string>& sets, int world) {
  config::Job job;
  for (const char* set : {"model.family=vlm", "data.source=scenes", "model.seq_len=128",
                          "run.global_batch=32", "vlm.balance=true"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, world, {});
}

// The most work of a rank over the mean, where `at` says which row stands where.
double imbalance(const std::vector<double>& work, const std::vector<std::int64_t>& at,
                 const config::Job& job) {
  std::vector<double> of_ranks;
  for (const auto& places : places_of_ranks(job)) {
    of_ranks.push_back(0);
    for (const std::int64_t place : places)
      for (std::int64_t i = 0; i < job.run.micro_batch; ++i)
        of_ranks.back() += work[at[static_cast<std::size_t>(place + i)]];
  }
  const double sum = std::accumulate(of_ranks.begin(), of_ranks.end(), 0.0);
  return *std::ranges::max_element(of_ranks) * static_cast<double>(of_ranks.size()) / sum;
}

TEST(Balance, RanksGetNearlyTheSameWorkUnderEveryLayout) {
  std::vector<double> work;
  std::vector<std::int64_t> as_drawn(32);
  std::iota(as_drawn.begin(), as_drawn.end(), 0);
  for (std::int64_t i = 0; i < 32; ++i)
    work.push_back(10.0 + static_cast<double>(Draws(7, i).below(40)));
  for (const std::vector<std::string>& layout :
       {std::vector<std::string>{},
        {"parallel.zero=3"},
        {"run.micro_batch=4"},
        {"run.micro_batch=2", "parallel.zero=2", "parallel.dp_replicate=2"}}) {
    const config::Job job = vlm_job(layout, 4);
    const std::vector<std::int64_t> at =
        balanced_rows(work, places_of_ranks(job), job.run.micro_batch);
    std::vector<std::int64_t> all = at;
    std::ranges::sort(all);
    EXPECT_EQ(all, as_drawn);
    EXPECT_GT(imbalance(work, as_drawn, job), 1.03);
    EXPECT_LT(imbalance(work, at, job), 1.02);
  }
}

TEST(Balance, MovesRowsWithinTheirGlobalBatchAlone) {
  const Balance balance(vlm_job({}, 4),
                        [](std::int64_t place) { return static_cast<double>(place % 7); });
  for (std::int64_t batch = 3; batch >= 0; --batch) {
    std::set<std::int64_t> places;
    for (std::int64_t place = 32 * batch; place < 32 * (batch + 1); ++place)
      places.insert(balance.at(place));
    EXPECT_EQ(places.size(), 32U);
    EXPECT_EQ(*places.begin(), 32 * batch);
    EXPECT_EQ(*places.rbegin(), 32 * batch + 31);
  }
  const Balance none(vlm_job({"vlm.balance=false"}, 4), [](std::int64_t) { return 0.0; });
  EXPECT_EQ(none.at(17), 17);
}

TEST(Balance, AFrozenTowersTileCostsAThirdOfOneThatTrains) {
  const QuestionWork all = question_work(vlm_job({}, 1));
  const QuestionWork frozen = question_work(vlm_job({"model.frozen=vision.*,projector"}, 1));
  EXPECT_LT(frozen.tile, 0.4 * all.tile);
  EXPECT_GT(frozen.tile, 0.3 * all.tile);
  EXPECT_EQ(frozen.row, all.row);
  // Of a row as many times the work as it may have more tokens, but attention's, which has more.
  const QuestionWork longer = question_work(vlm_job({"model.seq_len=256"}, 1));
  EXPECT_EQ(longer.tile, all.tile);
  EXPECT_GT(longer.row, 2 * all.row);
}

}  // namespace
}  // namespace trireme::loaders::packing_test
