// Collectives alone, and the table of those that were measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/scoreboard/registry.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/network.h"

namespace trireme::scoreboard::collectives_test {
namespace {

using mesh::Axis;
using plan::Exchange;
using testing::HasSubstr;

Cluster switched_host(double in_switch) {
  return {.name = "host",
          .gpus_per_host = 8,
          .tiers = {{.name = "nvlink",
                     .rate = 400e9,
                     .latency_s = 3e-6,
                     .efficiency = 0.8,
                     .copies = 0.9,
                     .in_switch = in_switch}}};
}

double all_reduced(const Cluster& cluster, double bytes) {
  return Network(cluster, mesh::Mesh({.dp_shard = 8}))
      .seconds(Exchange::kAllReduce, Axis::kDpShard, bytes);
}

TEST(Collectives, ASwitchThatSumsSendsEverythingOnceAndAnEighth) {
  const double bytes = 1e12, rate = 400e9 * 0.8;
  EXPECT_NEAR(all_reduced(switched_host(0), bytes), 2 * 7.0 / 8 * bytes / rate, 1e-3);
  EXPECT_NEAR(all_reduced(switched_host(0.9), bytes), 9.0 / 8 * bytes / (0.9 * rate), 1e-3);
  // One that is slower than a ring is not used.
  EXPECT_DOUBLE_EQ(all_reduced(switched_host(0.5), bytes), all_reduced(switched_host(0), bytes));
}

TEST(Collectives, OnlySumsAreMadeByASwitch) {
  const auto gather = [](const Cluster& cluster) {
    return Network(cluster, mesh::Mesh({.dp_shard = 8}))
        .seconds(Exchange::kAllGather, Axis::kDpShard, 1e9);
  };
  EXPECT_EQ(gather(switched_host(0.9)), gather(switched_host(0)));
}

TEST(Collectives, ATransferHasItsOwnShareOfTheLink) {
  const Cluster cluster = switched_host(0);
  EXPECT_NEAR(Network(cluster, mesh::Mesh({.pp = 2})).transfer(360e9), 1, 1e-5);
}

// Few bytes go by a protocol of short latency, many by that of full rate; the launch is there in both.
TEST(Collectives, AloneTakesTheProtocolThatIsSoonestDone) {
  const Cluster cluster = switched_host(0);
  const Network network(cluster, mesh::Mesh({.dp_shard = 8}));
  const auto beside = [&](double bytes) {
    return network.alone(Exchange::kAllReduce, Axis::kDpShard, bytes) -
           network.alone(Exchange::kAllReduce, Axis::kTp, bytes);
  };
  const double messages = 2 * 6 * 3e-6, byte = 2 * 7.0 / 8 / (400e9 * 0.8);
  EXPECT_NEAR(beside(1024), 0.3 * messages + 1024 * byte / 0.5, 1e-9);
  EXPECT_NEAR(beside(8e6), 0.55 * messages + 8e6 * byte / 0.9375, 1e-9);
  EXPECT_NEAR(beside(1e9), messages + 1e9 * byte, 1e-9);
  EXPECT_GT(network.alone(Exchange::kAllReduce, Axis::kTp, 1), 1e-5);
}

TEST(Collectives, FastLinksTakeMoreOfTheProcessorThanSlowOnes) {
  Cluster cluster = switched_host(0);
  cluster.hosts = 4;
  cluster.tiers[0].span = 8;
  cluster.tiers.push_back({.name = "between", .rate = 5e9});
  const Network network(cluster, mesh::Mesh({.dp_replicate = 4, .dp_shard = 8}));
  EXPECT_EQ(network.channels(Axis::kDpShard), 1);
  EXPECT_EQ(network.channels(Axis::kTp), 0);
  EXPECT_DOUBLE_EQ(network.channels(Axis::kDpReplicate), 5e9 / 200e9);
  EXPECT_DOUBLE_EQ(network.channels({Axis::kDpReplicate, Axis::kDpShard}), 8 * 5e9 / 200e9);
}

std::vector<scoreboard::Case> specs(const std::string& rows) {
  for (const scoreboard::Table& table : scoreboard::all_tables())
    if (table.name == "network_specs")
      return table.cases(scoreboard::Csv::parse("link,quantity,value,unit\n" + rows, "rows"));
  return {};
}

TEST(NetworkSpecs, MeasuredBandwidthsAreForecastRowByRow) {
  const auto rows = specs(
      "4-node all-reduce busbw,32KiB,0.92,GB/s\n"
      "4-node all-reduce busbw,1GiB,94.15,GB/s\n"
      "8xH200 NCCL all-reduce busbw,16GiB with NVLS,482.26,GB/s\n"
      "8xH200 NCCL all-reduce busbw,16GiB ring,367.61,GB/s\n"
      "32xB200 all-reduce busbw,4 nodes 16GiB,381.8,GB/s\n"
      "H200 P2P copy,one pair,396.4,GB/s\n");
  ASSERT_EQ(rows.size(), 6U);
  for (const scoreboard::Case& one : rows) {
    EXPECT_EQ(one.quantity, "bus bandwidth") << one.row;
    EXPECT_NEAR(one.forecast / one.measured, 1, 0.04) << one.row;
  }
}

TEST(NetworkSpecs, WhatIsNoMeasurementIsNamed) {
  const auto rows = specs(
      "32xB200 all-reduce busbw,4 nodes 32KiB,0.01,GB/s\n"
      "Calculon default efficiency,NVLink,0.65,of peak\n"
      "NVLink 1,unidirectional per GPU,80,GB/s\n"
      "all-reduce busbw,1GiB,80,GB/s\n"
      "NVLink 4,unidirectional per GPU,450,GB/s\n"
      "AWS P5 node,inter-node,300,GB/s\n"
      "8xH200 NCCL all-reduce busbw,0KiB,1,GB/s\n"
      "8xV100 NCCL all-reduce busbw,1GiB,130,GB/s\n");
  EXPECT_THAT(rows.at(0).unscored, HasSubstr("too few digits"));
  EXPECT_THAT(rows.at(1).unscored, HasSubstr("another simulator"));
  EXPECT_THAT(rows.at(2).unscored, HasSubstr("no shipped cluster"));
  EXPECT_THAT(rows.at(3).unscored, HasSubstr("are not told"));
  EXPECT_EQ(rows.at(4).quantity, "links of clusters");
  EXPECT_EQ(rows.at(4).forecast, 450);
  EXPECT_EQ(rows.at(5).forecast, 400);  // whatever the row says
  EXPECT_THAT(rows.at(6).unscored, HasSubstr("are not told"));
  EXPECT_THAT(rows.at(7).unscored, HasSubstr("machines that no shipped cluster has"));
}

}  // namespace
}  // namespace trireme::scoreboard::collectives_test
