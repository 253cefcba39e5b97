// Rows over cp ranks: what it does to values, memory and exchanges of a program.
#include "trireme/model/spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::spread_test {
namespace {

using config::usage_error_of;
using plan::Exchange;
using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

// A tower of 64 patches and, where asked, a token of the class.
ModelSpec vit(const Sets& sets) {
  config::Job job;
  for (const char* set :
       {"model.family=vit", "data.source=stripes", "vision.image=64", "vision.patch=8",
        "vision.hidden=64", "vision.heads=4", "vision.layers=2", "run.micro_batch=2"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return describe(config::resolve(job, job.parallel.cp * job.parallel.pp,
                                  config::synthetic_source(job.data.source)->facts));
}

const plan::Node& node(const ModelSpec& spec, std::string_view name) {
  for (const plan::Node& one : spec.program.nodes)
    if (one.name == name) return one;
  ADD_FAILURE() << "no node " << name;
  return spec.program.nodes[0];
}

const plan::Value& read_by(const ModelSpec& spec, std::string_view name) {
  return spec.program.values[node(spec, name).reads[0]];
}

std::int64_t bytes_of(const plan::Node& node, Exchange kind) {
  std::int64_t bytes = 0;
  for (const plan::NodeExchange& one : node.exchanges)
    if (one.kind == kind && one.axes == mesh::AxisSet(mesh::Axis::kCp))
      bytes += one.bytes * (one.forward + one.backward);
  return bytes;
}

TEST(SpreadRows, HalveWhatBlocksKeepAndComputeAndWhatLiesBetweenThem) {
  const ModelSpec one = vit({}), two = vit({"parallel.cp=2"});
  for (const char* block : {"block.0", "block.1"}) {
    EXPECT_EQ(node(two, block).saved_bytes * 2, node(one, block).saved_bytes);
    EXPECT_EQ(node(two, block).flops * 2, node(one, block).flops);
    EXPECT_EQ(read_by(two, block).bytes * 2, read_by(one, block).bytes);
  }
  EXPECT_THAT(read_by(two, "head").shape, testing::ElementsAre(2, 32, 64));
  EXPECT_EQ(node(two, "embed").flops, node(one, "embed").flops);
}

// An odd number of rows: as many as the rank with most has.
TEST(SpreadRows, AreCountedOnTheRankWithMost) {
  EXPECT_EQ(read_by(vit({"parallel.cp=2", "vision.pooling=class"}), "block.0").shape[1], 33);
}

// Keys and values forward and again backward, their gradients; the head gathers what the last block wrote.
TEST(SpreadRows, ExchangeKeysAndValuesAndMeetAtTheTrunksEnd) {
  const ModelSpec two = vit({"parallel.cp=2"});
  const std::int64_t all = 2 * 64 * 64 * 4;
  EXPECT_EQ(bytes_of(node(two, "block.0"), Exchange::kAllGather), 2 * 2 * all);
  EXPECT_EQ(bytes_of(node(two, "block.0"), Exchange::kReduceScatter), 2 * all);
  EXPECT_EQ(bytes_of(node(two, "head"), Exchange::kAllGather), all + 2 * 8);
  EXPECT_EQ(bytes_of(node(two, "head"), Exchange::kReduceScatter), all);
  EXPECT_TRUE(node(two, "embed").exchanges.empty());
  for (const plan::Node& one : vit({}).program.nodes) EXPECT_TRUE(one.exchanges.empty());
}

TEST(SpreadRows, ThatDoNotGoRoundAreRefused) {
  EXPECT_THAT(usage_error_of([] { vit({"parallel.cp=65"}); }),
              HasSubstr("65 ranks share 64 rows of x.0; set parallel.cp=64 or less"));
  const Sets uneven = {"parallel.cp=2", "parallel.pp=2", "vision.pooling=class"};
  EXPECT_THAT(usage_error_of([&] { vit(uneven); }),
              HasSubstr("different numbers of the 65 rows of x.0"));
}

}  // namespace
}  // namespace trireme::model::spread_test
