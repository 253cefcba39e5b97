// Programs of every shape on pipelines: skips over stages, tied weights, frozen towers, ragged values.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "trireme/base/error.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/ops/linear.h"
#include "trireme/plan/compile/partition.h"

namespace trireme::exec::pipeline_test {
namespace {

using harness::Layout;
using harness::Subject;
using harness::Trace;
using schedules::Schedule;

constexpr std::int64_t kRows = 4;
constexpr std::int64_t kWidth = 8;

// tanh(x W^T) for each of its units, x the sum of what it reads. A ragged node keeps some rows: fewer in odd
// micro-batches.
class Dense : public Block {
 public:
  Dense(bool loss, bool ragged) : loss_(loss), ragged_(ragged) {}
  void bind(std::vector<at::Tensor> params) override { weights_ = std::move(params); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext& context) override {
    at::Tensor x = inputs[0];
    for (std::size_t i = 1; i < inputs.size(); ++i) x = x + inputs[i].narrow(0, 0, x.size(0));
    for (const at::Tensor& weight : weights_)
      x = ops::linear(x, weight, {}, context.weight_gradients).tanh();
    if (ragged_) x = x.narrow(0, 0, kRows - context.micro_batch % 2);
    return {loss_ ? x.square().sum() : x};
  }

 private:
  bool loss_;
  bool ragged_;
  std::vector<at::Tensor> weights_;
};

class Maker {
 public:
  explicit Maker(std::string name) {
    model_.spec.program.name = std::move(name);
    program().values.push_back(
        {.name = "input", .bytes = kRows * kWidth * 8, .differentiable = false});
  }
  plan::UnitId unit(bool trainable = true) {
    const auto id = static_cast<plan::UnitId>(program().units.size());
    const std::string name = fmt::format("unit{}", id);
    program().units.push_back({.name = name, .numel = kWidth * kWidth, .trainable = trainable});
    model_.spec.units.push_back({.name = name,
                                 .params = {{.name = name,
                                             .shape = {kWidth, kWidth},
                                             .init = {model::Init::Kind::kNormal, 0.4}}}});
    return id;
  }
  // Returns what it writes.
  plan::ValueId node(std::vector<plan::ValueId> reads, std::vector<plan::UnitId> units,
                     plan::Node node = {}, bool ragged = false) {
    node.name = fmt::format("node{}", program().nodes.size());
    node.reads = std::move(reads);
    node.units = std::move(units);
    node.flops = 1;
    const auto out = static_cast<plan::ValueId>(program().values.size());
    node.writes = {out};
    program().values.push_back({.name = node.name + ".out",
                                .bytes = kRows * kWidth * 8,
                                .shape = {kRows, kWidth},
                                .varies = ragged});
    model_.spec.node_params.emplace_back();
    for (plan::UnitId unit : node.units)
      model_.spec.node_params.back().push_back({.unit = unit, .param = 0});
    model_.blocks.push_back(std::make_unique<Dense>(node.loss, ragged));
    program().nodes.push_back(std::move(node));
    return out;
  }
  plan::Node loss() const { return {.loss = true}; }
  plan::Node split() const { return {.split = plan::BackwardSplit{}}; }
  Model take() { return std::move(model_); }

 private:
  plan::Program& program() { return model_.spec.program; }
  Model model_;
};

Model encoder_decoder() {
  Maker make("encoder_decoder");
  std::vector<plan::ValueId> down = {0};
  for (int level = 0; level < 4; ++level)
    down.push_back(make.node({down.back()}, {make.unit()}, make.split()));
  plan::ValueId up = down.back();
  for (int level = 3; level > 0; --level)
    up = make.node({up, down[level]}, {make.unit()}, make.split());
  make.node({up}, {make.unit()}, make.loss());
  return make.take();
}

// The first unit is also the last one's; a node without a split shares one too.
Model tied() {
  Maker make("tied");
  const plan::UnitId first = make.unit();
  const plan::UnitId shared = make.unit();
  plan::ValueId x = make.node({0}, {first});
  x = make.node({x}, {shared}, make.split());
  for (int i = 0; i < 4; ++i) x = make.node({x}, {make.unit()}, make.split());
  x = make.node({x}, {shared});
  make.node({x}, {first}, make.loss());
  return make.take();
}

// A frozen encoder, a tower without gradients, and the trained one that meets both.
Model towers() {
  Maker make("towers");
  plan::ValueId teacher = 0;
  for (int i = 0; i < 2; ++i) teacher = make.node({teacher}, {make.unit(false)}, {.no_grad = true});
  plan::ValueId x = 0;
  for (int i = 0; i < 2; ++i) x = make.node({x}, {make.unit(false)});
  for (int i = 0; i < 3; ++i) x = make.node({x}, {make.unit()}, make.split());
  make.node({x, teacher}, {make.unit()}, make.loss());
  return make.take();
}

Model ragged() {
  Maker make("ragged");
  plan::ValueId x = 0;
  for (int i = 0; i < 7; ++i) x = make.node({x}, {make.unit()}, make.split(), /*ragged=*/true);
  make.node({x}, {make.unit()}, make.loss());
  return make.take();
}

Subject subject(Model (*make)(), const Layout& layout) {
  return {.model =
              [=] {
                Model model = make();
                const int chunks = schedules::chunks_of(layout.recipe.schedule, 0);
                const plan::Pipeline pipeline{
                    .placement = schedules::placement_of(layout.recipe.schedule),
                    .ranks = layout.degrees.pp,
                    .chunks = layout.degrees.pp == 1 ? 1 : chunks};
                model.spec.program = plan::place(
                    model.spec.program, plan::balance(model.spec.program, pipeline, layout.recipe),
                    pipeline);
                return model;
              },
          .optimizer = [] { return std::make_unique<harness::MomentumSgd>(); },
          .batch =
              [](std::int64_t step, std::int64_t micro_batch) {
                const BlockContext context{.seed = 3, .step = step, .micro_batch = micro_batch};
                return std::vector{
                    at::empty({kRows, kWidth}, at::kDouble).normal_(0, 1, context.generator(0))};
              },
          .loss_scale = 0.1,
          .clip = 0.5};
}

Layout layout(int pp, Schedule schedule, int zero = 0, int shard = 1, int segments = 0) {
  Layout result;
  result.degrees = {.pp = pp, .dp_shard = shard};
  result.segments = segments;
  result.recipe = {.zero = zero,
                   .micro_batches = 8 / shard,
                   .schedule = schedule,
                   .compute = DType::kF64,
                   .master = DType::kF64,
                   .grads = DType::kF64,
                   .optimizer_states = 1};
  return result;
}

Trace run(Model (*make)(), const Layout& layout) {
  return harness::run_layout(subject(make, layout), layout, 3);
}

class EveryShape : public testing::TestWithParam<int> {};

TEST_P(EveryShape, TrainsAsOnOneRank) {
  const auto schedule = static_cast<Schedule>(GetParam());
  const Layout one = layout(1, Schedule::k1F1B);
  for (Model (*make)() : {encoder_decoder, towers, ragged}) {
    SCOPED_TRACE(make().spec.program.name);
    const Trace reference = run(make, one);
    EXPECT_EQ(run(make, layout(2, schedule)), reference);
    EXPECT_EQ(run(make, layout(4, schedule)), reference);
    EXPECT_EQ(run(make, layout(2, schedule, 3, 2, 1)), reference);
    EXPECT_EQ(run(make, layout(2, schedule, 1, 1, 3)), reference);
  }
  // A tied unit's sums are taken chunk by chunk (docs/pipeline.md): other bits, the same model.
  const Trace reference = run(tied, one);
  for (const Layout& each :
       {layout(2, schedule), layout(4, schedule, 1), layout(2, schedule, 2, 2)})
    EXPECT_LT(harness::distance(run(tied, each), reference), 1e-12) << each.name();
  // Over ranks before chunks, also where chunks share a rank: every row has the same bits.
  const Trace two = run(tied, layout(2, schedule, 0, 2));
  for (int zero : {1, 2, 3})
    EXPECT_EQ(run(tied, layout(2, schedule, zero, 2)), two) << "ZeRO-" << zero;
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryShape, testing::Range(0, schedules::kScheduleCount),
                         [](const auto& one) {
                           return "s_" +
                                  std::string(schedules::name(static_cast<Schedule>(one.param)));
                         });

// What is announced matters: without it, ragged values are refused.
TEST(Transfers, RefuseAShapeThatIsNotDeclared) {
  const auto lying = [] {
    Model model = ragged();
    for (plan::Value& value : model.spec.program.values) value.varies = false;
    return model;
  };
  EXPECT_THROW(run(+lying, layout(2, Schedule::kGpipe)), Error);
  const auto silent = [] {
    Model model = ragged();
    for (plan::Value& value : model.spec.program.values) value.shape.clear();
    return model;
  };
  try {
    run(+silent, layout(2, Schedule::kGpipe));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_NE(std::string(error.what()).find("declare its shape"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::exec::pipeline_test
