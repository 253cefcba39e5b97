#include "trireme/planner/hardware/money.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/config/error_of.h"
#include "trireme/base/fs.h"
#include "trireme/planner/hardware/cluster_file.h"

namespace trireme::planner::money_test {
namespace {

using config::usage_error_of;
using ::testing::HasSubstr;

constexpr double kDay = 86400;
constexpr double kYearHours = 365.25 * 24;

TEST(TrainSeconds, IsMegatronsTrainingTime) {
  // 8 TP / (n X), SC21 section 5.1: GPT-3 on 1024 A100s in 34 days, a trillion parameters on 3072 in 84.
  EXPECT_NEAR(train_seconds(8 * 300e9 * 175e9, 1024, 140e12) / kDay, 34, 0.2);
  EXPECT_NEAR(train_seconds(8 * 450e9 * 1e12, 3072, 163e12) / kDay, 84, 1);
  // 6 TP without recomputation takes three quarters.
  EXPECT_DOUBLE_EQ(train_seconds(6 * 300e9 * 175e9, 1024, 140e12),
                   0.75 * train_seconds(8 * 300e9 * 175e9, 1024, 140e12));
  EXPECT_THAT(usage_error_of([] { train_seconds(1, 0, 1); }), HasSubstr("0 GPUs with 1 FLOP/s"));
}

// Table 1 of DeepSeek-V3's report: 2664K + 119K + 5K hours of H800 at 2 dollars.
TEST(Length, OfDeepSeekV3) {
  const auto hours = [](double gpu_hours) { return gpu_hours * 3600 / 2048; };
  const Length all = length({{"pretraining", 1, hours(2664e3), 2048},
                             {"context extension", 1, hours(119e3), 2048},
                             {"post-training", 1, hours(5e3), 2048}});
  EXPECT_DOUBLE_EQ(all.gpu_hours, 2788e3);
  EXPECT_DOUBLE_EQ(dollars({{"GPUs", all.gpu_hours * 2}}), 5.576e6);
  EXPECT_NEAR(all.seconds / kDay, 56.7, 0.1);
}

// V-JEPA 2 takes 240K of its 252K steps at 16 frames of 256 pixels and 12K at 64 of 384; with these at 40/3 the
// cost a step, all steps at the large size would cost 8.4 times as much, which is the paper's factor.
TEST(Length, OfAProgressiveSchedule) {
  constexpr double kStep = 1;
  constexpr double kRatio = 40.0 / 3;
  const Length progressive =
      length({{"16 x 256", 240e3, kStep, 128}, {"64 x 384", 12e3, kRatio, 128}});
  const Length large = length({{"64 x 384", 252e3, kRatio, 128}});
  EXPECT_DOUBLE_EQ(large.gpu_hours / progressive.gpu_hours, 8.4);
  // 60 GPU-years become seven, 62,600 A100-hours.
  EXPECT_NEAR(60 * kYearHours / 8.4, 62.6e3, 100);
  EXPECT_THAT(usage_error_of([] {
                length({{"warm-up", -1, 1, 8}});
              }),
              HasSubstr("phase warm-up: -1 steps"));
}

struct Example {
  double gpus;
  double hours;
  double price;  // of a GPU-hour, back-computed
  double compute;
  double storage;
  double egress;
  double total;
};

// The worked examples of tables/cloud_prices.csv, dollars as printed.
constexpr Example kExamples[] = {
    {8, 24, 3.00, 576, 2, 10, 588},
    {8, 24, 1.20, 230, 2, 10, 242},
    {8, 24, 1.10, 211, 2, 5, 218},
    {64, 168, 3.00, 32256, 340, 200, 32796},
    {64, 168, 0.70, 7526, 284, 150, 7960},
    {64, 168, 1.20, 12902, 300, 100, 13302},
    {256, 720, 3.904, 719616, 1440, 2000, 723056},
    {256, 720, 1.50, 276480, 1200, 1500, 279180},
    {256, 720, 2.992, 551424, 1200, 1000, 553624},
};

// A host that never fails and saves for nothing.
Cluster priced(double on_demand) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.failures_per_gpu_hour = 0;
  cluster.prices = {{.provider = "one", .on_demand = on_demand}};
  return cluster;
}

TEST(Offers, AreTheWorkedExamples) {
  for (const Example& example : kExamples) {
    const std::vector<Offer> list =
        offers(priced(example.price),
               {.useful_hours = example.hours,
                .gpus = example.gpus,
                .extras = {{"storage", example.storage}, {"egress", example.egress}}});
    ASSERT_EQ(list.size(), 1u);
    EXPECT_DOUBLE_EQ(list[0].hours, example.hours);
    ASSERT_EQ(list[0].bill.size(), 3u);
    // Prices have three decimals, dollars none.
    const double rounding = std::max(0.5, 1.2e-4 * example.compute);
    EXPECT_NEAR(list[0].bill[0].dollars, example.compute, rounding);
    EXPECT_NEAR(dollars(list[0].bill), example.total, rounding);
    EXPECT_EQ(dollars({{"GPUs", example.compute}, list[0].bill[1], list[0].bill[2]}),
              example.total);
  }
}

TEST(Energy, CountsHostsAndBuilding) {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.power_usage = 1.25;
  // Two hosts of 10.2 kW for ten hours; 12 GPUs need both.
  EXPECT_DOUBLE_EQ(energy_kwh(cluster, 16, 10), 2 * 10.2 * 10 * 1.25);
  EXPECT_DOUBLE_EQ(energy_kwh(cluster, 12, 10), (12 * 0.7 + 2 * 4.6) * 10 * 1.25);

  Rental run{.useful_hours = 10, .gpus = 16, .dollars_per_kwh = 0.2};
  Cluster sure = priced(3);
  sure.power_usage = 1.25;
  const std::vector<Item> bill = offers(sure, run).front().bill;
  ASSERT_EQ(bill.size(), 2u);
  EXPECT_EQ(bill[1].name, "energy");
  EXPECT_DOUBLE_EQ(bill[1].dollars, 255 * 0.2);
}

Rental week() {
  return {.useful_hours = 168, .gpus = 64, .checkpoint = {.stall_s = 5, .write_s = 60}};
}

Cluster market() {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.prices = {{.provider = "a", .region = "east", .on_demand = 4},
                    {.provider = "a",
                     .region = "west",
                     .on_demand = 3.5,
                     .spot = 1.5,
                     .notice_s = 120,
                     .preemptions_per_hour = 0.05},
                    {.provider = "b", .spot = 1.4, .notice_s = 30, .preemptions_per_hour = 0.08}};
  return cluster;
}

TEST(Offers, AreSortedByWhatTheRunCosts) {
  const std::vector<Offer> list = offers(market(), week());
  ASSERT_EQ(list.size(), 4u);
  EXPECT_EQ(name(list[0]), "a west, spot");
  EXPECT_EQ(name(list[2]), "a west");
  EXPECT_EQ(name(list[3]), "a east");
  // The lowest price an hour does not cost least: hosts go too often and too suddenly.
  EXPECT_EQ(name(list[1]), "b, spot");
  EXPECT_LT(list[1].dollars_per_gpu_hour, list[0].dollars_per_gpu_hour);
  EXPECT_GT(list[1].goodput.repeated, 5 * list[0].goodput.repeated);
  for (const Offer& offer : list) {
    EXPECT_DOUBLE_EQ(offer.hours * offer.goodput.useful, 168);
    EXPECT_DOUBLE_EQ(dollars(offer.bill), offer.gpu_hours * offer.dollars_per_gpu_hour);
  }
  // Those that come too late stand behind.
  Rental hasty = week();
  hasty.deadline_hours = (list[0].hours + list[2].hours) / 2;
  EXPECT_EQ(name(offers(market(), hasty).front()), "a west");
  EXPECT_FALSE(offers(market(), hasty).back().in_time);
}

TEST(Mix, HasItsSharesAndExtrasOnce) {
  Rental run = week();
  run.extras = {{"storage", 100}};
  const std::vector<Offer> list = offers(market(), run);
  const Mix both = mix(run, {{list[0], 0.25}, {list[3], 0.75}});
  EXPECT_DOUBLE_EQ(both.hours, 0.25 * list[0].hours + 0.75 * list[3].hours);
  EXPECT_NEAR(both.dollars, 0.25 * dollars(list[0].bill) + 0.75 * dollars(list[3].bill), 1e-6);
  EXPECT_THAT(usage_error_of([&] {
                mix(run, {{list[0], 0.5}});
              }),
              HasSubstr("add up to 0.5; needs 1"));
}

TEST(Cheapest, PaysForTimeOnlyWhereItMust) {
  const std::vector<Offer> list = offers(market(), week());
  EXPECT_EQ(cheapest(market(), week()).parts.size(), 1u);

  Rental hasty = week();
  hasty.deadline_hours = (list[0].hours + list[2].hours) / 2;
  const Mix both = cheapest(market(), hasty);
  ASSERT_EQ(both.parts.size(), 2u);
  EXPECT_EQ(name(both.parts[0].offer), "a west, spot");
  EXPECT_EQ(name(both.parts[1].offer), "a west");
  EXPECT_NEAR(both.parts[0].share, 0.5, 1e-9);
  EXPECT_NEAR(both.hours, hasty.deadline_hours, 1e-9);
  EXPECT_LT(both.dollars, dollars(list[2].bill));
  EXPECT_GT(both.dollars, dollars(list[0].bill));

  hasty.deadline_hours = 100;
  EXPECT_THAT(usage_error_of([&] { cheapest(market(), hasty); }),
              HasSubstr("no offer ends within 100 hours: a west is the fastest with 168."));
}

TEST(Offers, RefuseWhatCannotBe) {
  Cluster none = market();
  none.prices.clear();
  EXPECT_THAT(usage_error_of([&] { offers(none, week()); }),
              HasSubstr("cluster dgx-h100 has no prices"));
  EXPECT_THAT(usage_error_of([] { offers(market(), {.useful_hours = 1}); }),
              HasSubstr("a run on 0 GPUs"));
  EXPECT_THAT(usage_error_of([] { offers(market(), {.useful_hours = -1, .gpus = 8}); }),
              HasSubstr("a run of -1 hours"));
}

// What docs/choosing.md shows: at the H100's rate of failures, 148.8 s to write, all of it stalling or 6.3 s of it.
std::string interval_table() {
  const Cluster cluster = find_cluster("dgx-h100");
  std::string text =
      "| GPUs | stops every | waiting 148.8 s for each: save every, useful | waiting 6.3 s, "
      "written "
      "after 148.8 s: save every, useful |\n|---|---|---|---|\n";
  for (const int gpus : {64, 256, 1024, 4096, 16384}) {
    const Failures failures{.mttf_s = mttf_s(cluster.failures_per_gpu_hour, gpus),
                            .restart_s = cluster.restart_s};
    const auto cell = [&](double stall_s) {
      const Checkpointing checkpoint{.stall_s = stall_s, .write_s = 148.8};
      const Goodput shares = goodput(failures, checkpoint, best_interval_s(failures, checkpoint));
      return fmt::format("{:.0f} min, {:.1f} %", shares.interval_s / 60, 100 * shares.useful);
    };
    text += fmt::format("| {} | {:.1f} h | {} | {} |\n", gpus, failures.mttf_s / 3600, cell(148.8),
                        cell(6.3));
  }
  return text;
}

// Dollars for an hour's worth of useful work of one GPU, 60 s to write.
std::string spot_table() {
  Cluster cluster = find_cluster("dgx-h100");
  cluster.prices = {
      {.provider = "a", .on_demand = 3, .spot = 2, .notice_s = 120, .preemptions_per_hour = 0.01},
      {.provider = "b", .on_demand = 3, .spot = 2, .notice_s = 30, .preemptions_per_hour = 0.01}};
  std::string text =
      "| GPUs | on demand at 3 $ | spot at 2 $, notice 2 min | notice 30 s |\n|---|---|---|---|\n";
  for (const int gpus : {16, 64, 256, 512, 1024}) {
    const Rental run{.useful_hours = 1000,
                     .gpus = static_cast<double>(gpus),
                     .checkpoint = {.stall_s = 6.3, .write_s = 60}};
    const std::vector<Offer> list = offers(cluster, run);
    const auto cell = [&](const char* wanted) {
      const auto offer = std::ranges::find(list, wanted, [](const Offer& o) { return name(o); });
      return fmt::format("{:.2f} $, {:.0f} %", dollars(offer->bill) / (1000 * gpus),
                         100 * offer->goodput.useful);
    };
    text +=
        fmt::format("| {} | {} | {} | {} |\n", gpus, cell("a"), cell("a, spot"), cell("b, spot"));
  }
  return text;
}

TEST(Docs, ChoosingHasTheseTables) {
  const std::string stored = read_file(Path(TRIREME_SOURCE_DIR) / "docs" / "choosing.md");
  EXPECT_THAT(stored, HasSubstr(interval_table()));
  EXPECT_THAT(stored, HasSubstr(spot_table()));
}

}  // namespace
}  // namespace trireme::planner::money_test
