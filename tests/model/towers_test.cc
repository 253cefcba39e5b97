// Parameters of published towers, counted from their descriptions; what nodes exchange.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/families/clip/model.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/check/validate.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/plan/plan.h"

namespace trireme::model::towers_test {
namespace {

using ::testing::ElementsAre;
using Sets = std::vector<std::string>;

config::Job tower_job(const Sets& sets, int world = 1) {
  config::Job job;
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, world, config::synthetic_source(job.data.source)->facts);
}

Sets vit(int width, int depth, int heads, int ffn) {
  return {"model.family=vit",
          "data.source=stripes",
          "vision.image=256",
          "vision.patch=16",
          "vision.frames=16",
          "vision.tubelet=2",
          "vision.positions=rotary",
          fmt::format("vision.hidden={}", width),
          fmt::format("vision.layers={}", depth),
          fmt::format("vision.heads={}", heads),
          fmt::format("vision.ffn={}", ffn)};
}

Sets with(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

struct Dims {
  int width, layers, heads, image, patch;
};
Sets clip(const Dims& v, int out, int text_width, int text_heads) {
  return {"model.family=clip",
          "data.source=scenes",
          "vision.activation=quick_gelu",
          "vision.pooling=class",
          "vision.pre_norm=true",
          "model.layers=12",
          "model.vocab=49408",
          "run.global_batch=1",
          "model.seq_len=77",
          fmt::format("vision.hidden={}", v.width),
          fmt::format("vision.layers={}", v.layers),
          fmt::format("vision.heads={}", v.heads),
          fmt::format("vision.image={}", v.image),
          fmt::format("vision.patch={}", v.patch),
          fmt::format("contrastive.width={}", out),
          fmt::format("model.hidden={}", text_width),
          fmt::format("model.heads={}", text_heads)};
}

// Of units whose names begin with `prefix`.
std::int64_t parameters(const ModelSpec& spec, std::string_view prefix) {
  std::int64_t sum = 0;
  for (const UnitSpec& unit : spec.units)
    if (unit.name.starts_with(prefix)) sum += unit.numel();
  return sum;
}

std::int64_t parameter(const ModelSpec& spec, std::string_view name) {
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      if (param.name == name) return param.numel();
  return 0;
}

std::int64_t encoder_parameters(const Sets& sets) {
  const ModelSpec spec = describe(tower_job(sets));
  return spec.parameters() - parameter(spec, "head.weight") - parameter(spec, "head.bias");
}

TEST(Towers, EncodersHaveTheParametersOfVJepa) {
  EXPECT_EQ(encoder_parameters(vit(1024, 24, 16, 4096)), 303'885'312);
  EXPECT_EQ(encoder_parameters(vit(1280, 32, 16, 5120)), 631'648'000);
  EXPECT_EQ(encoder_parameters(vit(1408, 40, 22, 6144)), 1'012'173'952);
  EXPECT_EQ(encoder_parameters(vit(1408, 40, 16, 6144)), 1'012'173'952);
  EXPECT_EQ(encoder_parameters(vit(192, 12, 3, 768)), 5'633'856);
  EXPECT_EQ(encoder_parameters(vit(384, 12, 6, 1536)), 21'884'544);
  EXPECT_EQ(encoder_parameters(vit(768, 12, 12, 3072)), 86'236'416);
  // Rotary positions have no parameters, whatever the clip; a table has a row a token.
  const Sets tiny = vit(192, 12, 3, 768);
  EXPECT_EQ(encoder_parameters(with(tiny, {"vision.image=384", "vision.frames=64"})), 5'633'856);
  EXPECT_EQ(encoder_parameters(with(tiny, {"vision.positions=learned"})), 5'633'856 + 2048 * 192);
  EXPECT_EQ(describe(tower_job(tiny)).sample_tokens, 2048);
  EXPECT_EQ(describe(tower_job(with(tiny, {"vision.pooling=class"}))).sample_tokens, 2049);
}

TEST(Towers, ClipHasItsParameters) {
  struct Row {
    Dims dims;
    int out, text, text_heads;
    std::int64_t visual, without, total;
  };
  for (const Row& row :
       {Row{{768, 12, 12, 224, 32}, 512, 512, 8, 87'849'216, 87'456'000, 151'277'313},
        Row{{768, 12, 12, 224, 16}, 512, 512, 8, 86'192'640, 85'799'424, 149'620'737},
        Row{{1024, 24, 16, 224, 14}, 768, 768, 12, 303'966'208, 303'179'776, 427'616'513},
        Row{{1024, 24, 16, 336, 14}, 768, 768, 12, 304'293'888, 303'507'456, 427'944'193}}) {
    SCOPED_TRACE(row.total);
    const ModelSpec spec = describe(tower_job(clip(row.dims, row.out, row.text, row.text_heads)));
    EXPECT_EQ(parameters(spec, "vision."), row.visual);
    EXPECT_EQ(row.visual - parameter(spec, "visual.projection.weight"), row.without);
    EXPECT_EQ(spec.parameters(), row.total);
    EXPECT_EQ(parameters(spec, "loss"), 1);
  }
  const ModelSpec large = describe(tower_job(clip({1024, 24, 16, 224, 14}, 768, 768, 12)));
  EXPECT_EQ(parameters(large, "text."), 123'650'304);
}

Sets siglip(const Dims& v, int ffn) {
  return {"model.family=clip",        "data.source=scenes",
          "contrastive.loss=siglip",  "vision.activation=gelu_tanh",
          "vision.pooling=attention", fmt::format("vision.hidden={}", v.width),
          "model.vocab=32000",        fmt::format("vision.layers={}", v.layers),
          "model.seq_len=64",         fmt::format("vision.heads={}", v.heads),
          "model.layers=12",          fmt::format("vision.image={}", v.image),
          "model.heads=16",           fmt::format("vision.patch={}", v.patch),
          "model.hidden=768",         fmt::format("contrastive.width={}", v.width),
          "run.global_batch=1",       fmt::format("vision.ffn={}", ffn)};
}

// 384 pixels are 27 patches of 14 and a margin that no patch covers: 378.
TEST(Towers, SiglipHasItsParameters) {
  const ModelSpec large = describe(tower_job(siglip({1152, 27, 16, 378, 14}, 4304)));
  EXPECT_EQ(parameters(large, "vision."), 428'225'600);
  EXPECT_EQ(parameters(large, "vision.head") - 2 * 1152, 15'238'352);
  EXPECT_EQ(parameters(large, "loss"), 2);
  EXPECT_EQ(parameters(describe(tower_job(siglip({1152, 27, 16, 224, 14}, 4304))), "vision."),
            427'680'704);
  EXPECT_EQ(parameters(describe(tower_job(siglip({768, 12, 12, 224, 16}, 3072))), "vision."),
            92'884'224);
  // In a space of another width image features are projected.
  const Sets other = with(siglip({768, 12, 12, 224, 16}, 3072), {"contrastive.width=512"});
  EXPECT_EQ(parameters(describe(tower_job(other)), "vision."), 92'884'224 + 512 * 768);
}

std::vector<std::string> unit_names(const ModelSpec& spec) {
  std::vector<std::string> names;
  for (const UnitSpec& unit : spec.units) names.push_back(unit.name);
  return names;
}

TEST(Towers, UnitsHaveNames) {
  EXPECT_THAT(unit_names(describe(
                  tower_job({"model.family=vit", "data.source=stripes", "vision.layers=2"}))),
              ElementsAre("embed", "block.0", "block.1", "head"));
  EXPECT_THAT(
      unit_names(describe(tower_job({"model.family=clip", "data.source=scenes", "vision.layers=1",
                                     "model.layers=1", "run.global_batch=1", "model.seq_len=64"}))),
      ElementsAre("vision.embed", "vision.block.0", "vision.head", "text.embed", "text.block.0",
                  "text.head", "loss"));
}

std::vector<plan::NodeExchange> of_loss(const Sets& sets, int world) {
  return describe(tower_job(with(clip({64, 1, 4, 32, 8}, 48, 32, 4), sets), world))
      .program.nodes.back()
      .exchanges;
}

// A rank gives its features and gets everybody's; backward goes the other way.
TEST(Towers, ALossNodeGathersFeaturesOverDataParallelRanks) {
  EXPECT_TRUE(of_loss({"run.global_batch=4", "run.micro_batch=4"}, 1).empty());
  const auto clip_loss = of_loss({"run.global_batch=8", "run.micro_batch=4"}, 2);
  ASSERT_EQ(clip_loss.size(), 2u);
  EXPECT_EQ(clip_loss[0], (plan::NodeExchange{.kind = plan::Exchange::kAllGather,
                                              .axes = mesh::Axis::kDpShard,
                                              .bytes = 2 * 8 * 48 * 4,
                                              .forward = 1}));
  EXPECT_EQ(clip_loss[1], (plan::NodeExchange{.kind = plan::Exchange::kReduceScatter,
                                              .axes = mesh::Axis::kDpShard,
                                              .bytes = 2 * 8 * 48 * 4,
                                              .backward = 1}));
  // Nothing comes back to towers that do not train.
  EXPECT_EQ(
      of_loss({"run.global_batch=8", "run.micro_batch=4", "model.frozen=vision.*,text.*"}, 2)[1]
          .backward,
      0);
}

// Captions with their gradients visit every other rank, then gradients go home.
TEST(Towers, ASiglipLossPassesCaptionsRound) {
  const auto exchanges =
      of_loss({"run.global_batch=16", "run.micro_batch=4", "contrastive.loss=siglip"}, 4);
  const plan::NodeExchange shift{.kind = plan::Exchange::kSendRecv,
                                 .axes = mesh::Axis::kDpShard,
                                 .bytes = 2 * 4 * 48 * 4,
                                 .forward = 3};
  plan::NodeExchange home = shift;
  home.bytes /= 2;
  home.forward = 1;
  EXPECT_THAT(exchanges, ElementsAre(shift, home));
  // What a rank holds grows with its own rows, not with the batch.
  const auto held = [](int world) {
    const Sets sets = {"contrastive.loss=siglip", "run.micro_batch=4",
                       fmt::format("run.global_batch={}", 4 * world)};
    const plan::Node node =
        describe(tower_job(with(clip({64, 1, 4, 32, 8}, 48, 32, 4), sets), world))
            .program.nodes.back();
    return node.saved_bytes + node.work.forward;
  };
  EXPECT_EQ(held(8), held(2));
}

// The loss of all micro-batches gathers and compares as much as that of one which is all of them.
TEST(Towers, AJointLossIsThatOfTheWholeShare) {
  const auto spec_of = [](const Sets& sets) {
    return describe(tower_job(with(clip({64, 1, 4, 32, 8}, 48, 32, 4), sets), 2));
  };
  const ModelSpec one = spec_of({"run.global_batch=8", "run.micro_batch=4"});
  const ModelSpec joint =
      spec_of({"run.global_batch=8", "run.micro_batch=1", "parallel.schedule=gpipe"});
  const plan::Node &whole = one.program.nodes.back(), &loss = joint.program.nodes.back();
  EXPECT_FALSE(whole.joint);
  EXPECT_TRUE(loss.joint);
  EXPECT_EQ(loss.exchanges, whole.exchanges);
  EXPECT_EQ(loss.flops, whole.flops);
  EXPECT_EQ(loss.saved_bytes, whole.saved_bytes + 2 * 4 * 48 * 4);  // features put together
  EXPECT_NEAR(joint.flops_per_token, one.flops_per_token, 1e-9 * one.flops_per_token);
}

// What GradCache is for: of each micro-batch little but its features stays. The forecast has it.
TEST(Towers, GradcacheWithRecomputationKeepsFeatures) {
  struct Activations {
    std::int64_t most = 0, behind_forwards = 0;
  };
  const auto activations = [](const Sets& sets) {
    const config::Job job =
        tower_job(with(with(clip({64, 4, 4, 32, 8}, 48, 32, 4), {"run.global_batch=16"}), sets));
    const plan::PlanSet plan = plan::compile(describe(job).program, mesh_of(job), recipe_of(job));
    plan::validate(plan);
    const plan::MemoryAccount account = plan::memory_account(plan, 0);
    constexpr auto kKind = static_cast<std::size_t>(plan::MemoryKind::kActivations);
    const auto last =
        std::find_if(plan.lists[0].rbegin(), plan.lists[0].rend(),
                     [](const plan::Instr& line) { return line.verb == plan::Verb::kForward; });
    const auto line = static_cast<std::size_t>(plan.lists[0].rend() - last) - 1;
    return Activations{account.peak[kKind], account.at_line[line][kKind]};
  };
  const Sets cached = {"run.micro_batch=1", "parallel.schedule=gpipe"};
  const Activations whole = activations({"run.micro_batch=16"});
  const Activations kept = activations(cached);
  const Activations blocks = activations(with(cached, {"recompute.policy=full"}));
  const Activations features = activations(with(cached, {"recompute.policy=full:100"}));
  EXPECT_GT(kept.most, whole.most / 2);
  EXPECT_LT(blocks.most, whole.most / 4);
  EXPECT_LT(features.most, blocks.most);
  // Features, as values and put together; inputs and embedded tokens of 77 places; what the loss makes of all.
  const std::int64_t inputs = 3 * 32 * 32 * 4 + 77 * 8 + 8, embedded = 77 * 32 * 4;
  EXPECT_EQ(features.behind_forwards,
            16 * (2 * 2 * 48 * 4 + inputs + embedded) + 2 * (16 * 48 + 2 * 16 * 16) * 4 + 4);
}

TEST(Towers, FrozenTowersHaveNoBackward) {
  const Sets sets = with(clip({64, 2, 4, 32, 8}, 48, 32, 4),
                         {"run.global_batch=4", "run.micro_batch=4", "model.frozen=vision.*"});
  const plan::Program program = describe(tower_job(sets)).program;
  const plan::GradientFlow flow = plan::gradient_flow(program);
  for (std::size_t node = 0; node < program.nodes.size(); ++node)
    EXPECT_EQ(flow.node_has_backward[node], !program.nodes[node].name.starts_with("vision."))
        << program.nodes[node].name;
}

// Features of the MLP that a block keeps: before and behind the activation, and a sigmoid.
TEST(Towers, ActivationsKeepWhatTheyNeed) {
  const auto kept = [](const char* activation) {
    const config::Job job = tower_job({"model.family=vit", "data.source=stripes",
                                       std::string("vision.activation=") + activation});
    return describe(job).program.nodes[1].saved_bytes;
  };
  const std::int64_t features = 16 * 512 * 4;  // tokens, ffn, fp32
  EXPECT_EQ(kept("gelu") - kept("gelu_tanh"), features);
  EXPECT_EQ(kept("quick_gelu") - kept("gelu_tanh"), 2 * features);
}

}  // namespace
}  // namespace trireme::model::towers_test
