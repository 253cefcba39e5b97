// Decoders that attend to images: which nodes there are, and what they have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/model.h"
#include "trireme/families/vlm/model_gated_cross.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::gated_cross_test {
namespace {

using ::testing::ElementsAre;

ModelSpec crossing(const std::vector<std::string>& sets, int ranks = 1) {
  config::Job job;
  for (const char* set :
       {"model.family=vlm", "data.source=scenes", "vlm.cross=[1, 8]", "vlm.max_tiles=0"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return describe(config::resolve(job, ranks, {}));
}

std::int64_t parameters_of(const ModelSpec& spec, const std::string& unit) {
  const auto found = std::ranges::find(spec.units, unit, &UnitSpec::name);
  return found == spec.units.end() ? 0 : found->numel();
}

const plan::Node& cross_node(const ModelSpec& spec, const std::string& name) {
  return *std::ranges::find(spec.program.nodes, name, &plan::Node::name);
}

// OpenFlamingo's block of 4096 on images of 1024, and Flamingo's resampler, which ends without a layer of its own.
TEST(GatedCross, HasThePublishedParameters) {
  const std::vector<std::string> sets = {
      "vision.hidden=1024", "vision.heads=16", "projector.kind=perceiver", "projector.queries=64",
      "model.hidden=4096",  "model.heads=32",  "model.layers=32",          "vlm.cross=[4, 8]"};
  const ModelSpec spec = crossing(sets);
  EXPECT_EQ(parameters_of(spec, "projector"), 63'019'008);
  for (const char* block : {"cross.3", "cross.7", "cross.31"})
    EXPECT_EQ(parameters_of(spec, block), 139'476'994) << block;
  EXPECT_EQ(parameters_of(spec, "newline"), 0);
  const std::int64_t crossed = std::ranges::count_if(
      spec.units, [](const UnitSpec& unit) { return unit.name.starts_with("cross."); });
  EXPECT_EQ(crossed, 8);
}

TEST(GatedCross, StandsBeforeTheLastOfSoManyBlocks) {
  const auto decoder = [](const std::vector<std::string>& sets) {
    std::vector<std::string> names;
    for (const plan::Node& node : crossing(sets).program.nodes)
      if (!node.name.starts_with("vision.")) names.push_back(node.name);
    return names;
  };
  EXPECT_THAT(decoder({"model.layers=2"}), ElementsAre("projector", "embed", "cross.0", "block.0",
                                                       "cross.1", "block.1", "head"));
  EXPECT_THAT(decoder({"model.layers=5", "vlm.cross=[2, 8]"}),
              ElementsAre("projector", "embed", "block.0", "cross.1", "block.1", "block.2",
                          "cross.3", "block.3", "block.4", "head"));
  const ModelSpec spec = crossing({"model.layers=2"});
  EXPECT_EQ(cross_node(spec, "cross.1").reads[0], cross_node(spec, "block.0").writes[0]);
  EXPECT_EQ(cross_node(spec, "cross.1").reads[2], cross_node(spec, "projector").writes[0]);
  EXPECT_EQ(cross_node(spec, "block.1").reads[0], cross_node(spec, "cross.1").writes[0]);
  EXPECT_EQ(cross_node(spec, "embed").reads.size(), 1U);
}

TEST(GatedCross, HeadsAndFeaturesAreSharedByTensorParallelRanks) {
  const ModelSpec one = crossing({"vlm.cross=[1, 4]"}),
                  two = crossing({"vlm.cross=[1, 4]", "parallel.tp=2"}, 2);
  const auto unit = [](const ModelSpec& spec) {
    return *std::ranges::find(spec.program.units, "cross.0", &plan::Unit::name);
  };
  const std::int64_t whole = 4 * 64 + 2;  // gains, biases and gates of a decoder of 64
  EXPECT_EQ(2 * (unit(two).numel - whole), unit(one).numel - whole);
  EXPECT_EQ(unit(two).tp_partial, 0);
  EXPECT_EQ(2 * cross_node(two, "cross.0").flops, cross_node(one, "cross.0").flops);
}

// As Flamingo trains: a frozen tower and decoder, gradients through the latter to blocks and resampler.
TEST(GatedCross, FrozenDecodersPassGradientsOn) {
  const ModelSpec spec = crossing(
      {"projector.kind=perceiver", "model.frozen=vision.*,embed,block.*,head", "model.layers=3"});
  const plan::GradientFlow flow = plan::gradient_flow(spec.program);
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n) {
    const std::string& name = spec.program.nodes[n].name;
    EXPECT_EQ(flow.node_has_backward[n], !name.starts_with("vision.") && name != "embed") << name;
  }
  // A first block that neither trains nor is reached by a gradient does no products for one.
  const ModelSpec still =
      crossing({"model.frozen=embed,cross.0,block.*,head", "vision.layers=4", "model.layers=3"});
  EXPECT_LT(*cross_node(still, "cross.0").backward_flops,
            *cross_node(still, "cross.1").backward_flops);
}

TEST(GatedCross, RowsHaveRoomForAnImageToEverySecondToken) {
  const config::Job job = [] {
    config::Job made;
    for (const char* set : {"model.family=vlm", "data.source=scenes", "vlm.cross=[1, 8]",
                            "vlm.max_tiles=0", "model.seq_len=24"})
      config::apply_set(made, set);
    return config::resolve(made, 1, {});
  }();
  EXPECT_EQ(row_tiles(job), 12);
  EXPECT_EQ(expected_tiles(job), job.run.micro_batch);
}

}  // namespace
}  // namespace trireme::model::gated_cross_test
