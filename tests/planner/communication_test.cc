// Ways of communication on slow links: what they cost, which may be chosen, and reduction servers.
#include "trireme/planner/search/communication.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/planner/synthetic_machine.h"
#include "trireme/base/error.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/hardware/network.h"
#include "trireme/planner/search/report/answer_print.h"

namespace trireme::planner::communication_test {
namespace {

using ::testing::HasSubstr;

// Hosts of one core each.
Cluster slow_hosts(int hosts, double megabits) {
  Cluster cluster;
  cluster.name = "slow";
  cluster.gpu = synthetic_calibration().machine.gpu;
  cluster.gpu.core.reset();
  cluster.gpus_per_host = 1;
  cluster.hosts = hosts;
  cluster.host_memory = std::int64_t{8} << 30;
  cluster.tiers = {{.name = "internet", .rate = megabits * 0.125e6, .latency_s = 1e-3}};
  return cluster;
}

config::Job small_job() {
  config::Job job;
  job.model.layers = 6;
  job.model.hidden = 384;
  job.model.heads = 6;
  job.model.seq_len = 256;
  job.model.vocab = 256;
  job.run.global_batch = 16;
  job.run.steps = 3000;
  job.parallel.zero = 0;
  return job;
}

Answer planned(const Cluster& cluster, const Settings& settings) {
  return search({.job = small_job(),
                 .cluster = cluster,
                 .kept = {"parallel.pp", "parallel.tp", "parallel.cp", "parallel.zero"}},
                settings);
}

const Communication& of(const Answer& answer, const std::string& name) {
  for (const Communication& one : answer.communications)
    if (one.name == name) return one;
  throw std::runtime_error("no way " + name);
}

std::string chosen(const Answer& answer) {
  for (const Communication& one : answer.communications)
    if (one.chosen) return one.name;
  return "";
}

TEST(Communications, ApproximateWaysNeedPermission) {
  const Cluster cluster = slow_hosts(2, 10);
  const Answer strict = planned(cluster, {});
  EXPECT_EQ(chosen(strict), "dense");
  EXPECT_LT(of(strict, "q8").seconds, of(strict, "dense").seconds);
  EXPECT_THAT(of(strict, "q8").why, HasSubstr("--allow q8"));
  EXPECT_THAT(of(strict, "q4_residual").why, HasSubstr("loss not measured"));

  const Answer little = planned(cluster, {.max_loss = 0.1});
  EXPECT_TRUE(of(little, "q8").allowed);
  EXPECT_FALSE(of(little, "diloco_30").allowed);
  EXPECT_FALSE(of(little, "q4_residual").allowed);
  EXPECT_EQ(chosen(little), "q8");
  EXPECT_EQ(little.options.front().job.network.codec, "q8/q8");

  const Answer islands = planned(cluster, {.max_loss = 1});
  EXPECT_EQ(chosen(islands), "diloco_30");
  EXPECT_EQ(chosen(planned(cluster, {.allow = {"diloco_100"}})), "diloco_100");
  EXPECT_THROW(planned(cluster, {.allow = {"q9"}}), Error);
}

// Of two hosts a q8 sum sends about a quarter of fp32's bytes, and pays below the rate that the answer names.
TEST(Communications, BreakEvenRatesAreWhereCodesPay) {
  const Answer answer = planned(slow_hosts(2, 10), {});
  const Communication &dense = of(answer, "dense"), &q8 = of(answer, "q8");
  EXPECT_NEAR(q8.sent / dense.sent, 0.26, 0.02);
  EXPECT_NEAR(of(answer, "diloco_100").sent / dense.sent, 0.0022, 0.0008);
  EXPECT_NEAR(of(answer, "lowrank").sent / dense.sent, 0.1 + 0.9 * 0.017, 0.003);  // warm-up: 10 %
  EXPECT_NEAR(q8.below, (dense.sent - q8.sent) / q8.codec_s, 1);
  EXPECT_THAT(answer_text(answer, {}), HasSubstr("pays below"));
}

TEST(Communications, ServersAreTakenWhereTheyPay) {
  Cluster cluster = slow_hosts(4, 100);
  cluster.reducers = {.hosts = 4, .rate = 12.5e6, .price = 0.1};
  const Answer answer = planned(cluster, {});
  EXPECT_EQ(chosen(answer), "servers");
  EXPECT_LT(of(answer, "servers").seconds, of(answer, "dense").seconds);
  cluster.reducers.hosts = 1;
  EXPECT_EQ(chosen(planned(cluster, {})), "dense");
}

TEST(Communications, MeasuredLinksArePriced) {
  algorithm::Links links;
  for (const double megabits : {10.0, 100.0, 100.0, 100.0})
    links.hosts.push_back({.name = std::to_string(links.hosts.size()),
                           .up = megabits * 0.125e6,
                           .down = megabits * 0.125e6});
  const Cluster cluster = with_links(slow_hosts(1, 1), links);
  EXPECT_EQ(cluster.hosts, 4);
  const mesh::Mesh mesh({.pp = 1, .dp_replicate = 1, .dp_shard = 4, .cp = 1, .tp = 1});
  const Network network(cluster, mesh);
  EXPECT_NEAR(network.seconds(plan::Exchange::kAllReduce, mesh::Axis::kDpShard, 1.25e6), 1, 1e-3);
  Cluster even = cluster;
  even.links.reset();
  EXPECT_GT(Network(even, mesh).seconds(plan::Exchange::kAllReduce, mesh::Axis::kDpShard, 1.25e6),
            1.4);
}

TEST(Communications, ClusterFilesNameReducers) {
  const Cluster cluster = parse_cluster(
      "like: cpu-host\nname: x\nreducers: {hosts: 2, rate: 100Mb/s, price: 0.05}\n", "c");
  EXPECT_EQ(cluster.reducers.hosts, 2);
  EXPECT_DOUBLE_EQ(cluster.reducers.rate, 12.5e6);
  EXPECT_THROW(parse_cluster("like: cpu-host\nname: x\nreducers: {hosts: 2}\n", "c"), Error);
}

}  // namespace
}  // namespace trireme::planner::communication_test
