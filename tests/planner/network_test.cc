#include "trireme/planner/hardware/network.h"

#include <gtest/gtest.h>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"

namespace trireme::planner::network_test {
namespace {

using mesh::Axis;
using plan::Exchange;

// Hosts of eight, 100 bytes a second inside and 10 between, half of it reached by collectives inside.
Cluster pair_of_tiers(int count) {
  return {.name = "hosts",
          .gpus_per_host = 8,
          .hosts = count,
          .tiers = {{.name = "inside", .span = 8, .rate = 100, .latency_s = 1, .efficiency = 0.5},
                    {.name = "between", .rate = 10, .latency_s = 4, .efficiency = 1}}};
}

TEST(Network, AGroupInsideAHostUsesItsLinks) {
  const Cluster cluster = pair_of_tiers(1);
  const Network network(cluster, mesh::Mesh({.tp = 4}));
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllGather, Axis::kTp, 1000), 0.75 * 1000 / 50 + 3);
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllReduce, Axis::kTp, 1000),
                   2 * (0.75 * 1000 / 50 + 3));
  EXPECT_EQ(network.seconds(Exchange::kAllReduce, Axis::kDpShard, 1000), 0);
}

TEST(Network, MembersOfAHostBringTheirLinksTogether) {
  const Cluster cluster = pair_of_tiers(2);
  // Eight members on each host: 8 x 10 between them is more than the 50 inside.
  const Network all(cluster, mesh::Mesh({.dp_shard = 16}));
  EXPECT_DOUBLE_EQ(all.seconds(Exchange::kReduceScatter, Axis::kDpShard, 1600),
                   15.0 / 16 * 1600 / 50 + (6 + 4));
  // One member on each: its own link.
  const Network one(cluster, mesh::Mesh({.dp_shard = 2, .tp = 8}));
  EXPECT_DOUBLE_EQ(one.seconds(Exchange::kReduceScatter, Axis::kDpShard, 1600),
                   0.5 * 1600 / 10 + 4);
  // Four.
  const Network four(cluster, mesh::Mesh({.dp_shard = 8, .tp = 2}));
  EXPECT_DOUBLE_EQ(four.seconds(Exchange::kReduceScatter, Axis::kDpShard, 1600),
                   7.0 / 8 * 1600 / 40 + (3 + 4));
}

// Ranks 6 and 7 on one host, 8 on the next: the third group has one link between them, and all wait for it.
TEST(Network, AGroupThatStraddlesHostsIsAsSlowAsItsFewestLinks) {
  const Cluster cluster = pair_of_tiers(6);
  const Network three(cluster, mesh::Mesh({.dp_shard = 8, .tp = 3}));
  EXPECT_DOUBLE_EQ(three.seconds(Exchange::kAllGather, Axis::kTp, 300),
                   2.0 / 3 * 300 / 10 + (2 + 4));
  const Network six(cluster, mesh::Mesh({.dp_shard = 8, .tp = 6}));
  EXPECT_DOUBLE_EQ(six.seconds(Exchange::kAllGather, Axis::kTp, 600), 5.0 / 6 * 600 / 20 + (5 + 4));
  // Eight on one host and four on the other.
  const Network twelve(cluster, mesh::Mesh({.dp_shard = 2, .tp = 12}));
  EXPECT_DOUBLE_EQ(twelve.seconds(Exchange::kAllGather, Axis::kTp, 1200),
                   11.0 / 12 * 1200 / 40 + (6 + 4));
  const Network stages(cluster, mesh::Mesh({.pp = 2, .dp_shard = 12}));
  EXPECT_DOUBLE_EQ(stages.seconds(Exchange::kReduceScatter, Axis::kDpShard, 1200),
                   11.0 / 12 * 1200 / 40 + (6 + 4));
}

TEST(Network, GroupsThatFillAHostTogetherStayInside) {
  const Cluster cluster = pair_of_tiers(3);
  const Network network(cluster, mesh::Mesh({.pp = 3, .dp_shard = 2, .tp = 4}));
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllGather, Axis::kTp, 400), 0.75 * 400 / 50 + 3);
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllGather, Axis::kDpShard, 400), 0.5 * 400 / 50 + 1);
  // Of tp and pp, with data-parallel ranks between them: four of each host.
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllGather, {Axis::kTp, Axis::kPp}, 1200),
                   11.0 / 12 * 1200 / 40 + (3 + 2 * 4));
}

TEST(Network, LatencyGrowsWithTheLogarithmOfManyHosts) {
  const Cluster cluster = pair_of_tiers(1024);
  const Network network(cluster, mesh::Mesh({.dp_shard = 1024, .tp = 8}));
  EXPECT_DOUBLE_EQ(network.seconds(Exchange::kAllGather, Axis::kDpShard, 0), 4 * 20);
}

TEST(Network, AChosenAlgorithmHasItsOwnRoundsBetweenHosts) {
  const Cluster cluster = pair_of_tiers(8);
  using algorithm::Kind;
  const auto seconds = [&](Kind kind, Exchange exchange, const mesh::Mesh& mesh) {
    return Network(cluster, mesh, kind).seconds(exchange, Axis::kDpShard, 1600);
  };
  const mesh::Mesh one({.dp_shard = 8, .tp = 8});
  const double bytes = 7.0 / 8 * 1600 / 10;
  EXPECT_DOUBLE_EQ(seconds(Kind::kDirect, Exchange::kReduceScatter, one), bytes + 4);
  EXPECT_DOUBLE_EQ(seconds(Kind::kHalving, Exchange::kReduceScatter, one), bytes + 3 * 4);
  EXPECT_DOUBLE_EQ(seconds(Kind::kRing, Exchange::kAllReduce, one), 2 * (bytes + 7 * 4));
  EXPECT_GT(seconds(Kind::kTree, Exchange::kAllReduce, one), 2 * bytes + 6 * 4);
  // Four on each host meet there first.
  const mesh::Mesh four({.dp_shard = 32, .tp = 2});
  EXPECT_DOUBLE_EQ(seconds(Kind::kHalving, Exchange::kAllGather, four),
                   31.0 / 32 * 1600 / 40 + 3 + 3 * 4);
  // Exchanges along other axes are as they were.
  EXPECT_DOUBLE_EQ(Network(cluster, one, Kind::kRing).seconds(Exchange::kAllGather, Axis::kTp, 100),
                   Network(cluster, one).seconds(Exchange::kAllGather, Axis::kTp, 100));
}

TEST(Network, ATransferHasTheRateOfTheTierBetweenTheStages) {
  const Cluster cluster = pair_of_tiers(2);
  EXPECT_DOUBLE_EQ(Network(cluster, mesh::Mesh({.pp = 2, .tp = 8})).transfer(100), 10 + 4);
  EXPECT_DOUBLE_EQ(Network(cluster, mesh::Mesh({.pp = 2, .tp = 4})).transfer(100), 1 + 1);
}

TEST(Network, RefusesWhatTheClusterCannotHold) {
  const Cluster small = pair_of_tiers(1);
  EXPECT_EQ(
      formats::refusal([&] { Network(small, mesh::Mesh({.dp_shard = 16})); }, ErrorKind::kUsage),
      "cluster hosts has 1 host of 8 = 8 GPUs, the layout needs 16; take fewer ranks or more "
      "hosts");
  Cluster cores = small;
  cores.gpu.cpu = true;
  EXPECT_NE(
      formats::refusal([&] { Network(cores, mesh::Mesh({.dp_shard = 16})); }, ErrorKind::kUsage)
          .find("1 host of 8 = 8 cores, the layout needs 16"),
      std::string::npos);
  Cluster apart = pair_of_tiers(2);
  apart.tiers.pop_back();
  EXPECT_EQ(
      formats::refusal([&] { Network(apart, mesh::Mesh({.dp_shard = 16})); }, ErrorKind::kUsage),
      "cluster hosts: no tier joins 16 ranks; give the outermost span: 0");
}

}  // namespace
}  // namespace trireme::planner::network_test
