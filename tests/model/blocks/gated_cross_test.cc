// Blocks that attend to images against OpenFlamingo's formula, and what they are before they are trained.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/types.h>

#include <map>

#include "tests/harness/bound_model.h"
#include "tests/harness/count_allocations.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/families/vlm/blocks_gated_cross.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/blocks/generate.h"
#include "trireme/model/families/describe.h"
#include "trireme/plan/memory.h"

namespace trireme::blocks::gated_cross_test {
namespace {

using Tensors = std::vector<at::Tensor>;

config::Job crossing_job(const std::vector<std::string>& sets = {}) {
  config::Job job;
  for (const char* set :
       {"model.family=vlm", "data.source=scenes", "precision.compute=fp64", "vlm.cross=[1, 2]",
        "vlm.max_tiles=0", "vision.hidden=24", "vision.heads=2", "vision.layers=2",
        "model.hidden=32", "model.heads=2", "model.layers=1", "model.ffn=48", "model.seq_len=48",
        "projector.kind=perceiver", "projector.queries=3", "projector.layers=1",
        "projector.heads=1"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

struct Bound {
  GatedCross block{std::make_shared<Across>(config::Model{})};
  std::map<std::string, at::Tensor> params;  // by the last part of their names
  Tensors list;
};

// With parameters as they are drawn, or with gates that are open.
Bound bound_cross(bool open) {
  Bound bound;
  const model::ModelSpec spec = model::describe(crossing_job());
  const std::string prefix = "gated_cross_attn_layers.0.";
  for (const model::UnitSpec& unit : spec.units)
    if (unit.name == "cross.0")
      for (const model::ParamSpec& param : unit.params) {
        at::Tensor values = at::randn(param.shape, at::kDouble) * 0.3;
        if (param.init.kind == model::Init::Kind::kOnes) values = 1 + values;
        if (!open && param.name.ends_with("gate")) {
          EXPECT_EQ(param.init.kind, model::Init::Kind::kZeros);
          values.zero_();
        }
        bound.list.push_back(values.set_requires_grad(true));
        bound.params[param.name.substr(prefix.size())] = values;
      }
  EXPECT_EQ(bound.list.size(), 11U);
  bound.block.bind(bound.list);
  return bound;
}

// Two samples of five tokens: text, an image, text, another image, text; and text, text, an image, text, text.
const at::Tensor& five_tokens() {
  static const at::Tensor visual =
      at::tensor({-1, 0, 0, 3, 3, -1, -1, 6, 6, 6}, at::kLong).view({2, 5});
  return visual;
}

// MaskedCrossAttention of a sample's images [images, latents, width]; `media` marks their tokens (open_flamingo,
// helpers.py, only_attend_immediate_media).
at::Tensor flamingo_attention(const Bound& of, const at::Tensor& x_td, const at::Tensor& images,
                              const at::Tensor& media) {
  const auto& p = of.params;
  const at::Tensor normed =
      at::layer_norm(x_td, {32}, p.at("attn.norm.weight"), p.at("attn.norm.bias"), 1e-5);
  const auto by_head = [](const at::Tensor& x) { return x.unflatten(1, {2, 64}).transpose(0, 1); };
  const at::Tensor q = by_head(at::matmul(normed, p.at("attn.to_q.weight").t())) / 8;
  const Tensors kv = at::matmul(images.flatten(0, 1), p.at("attn.to_kv.weight").t()).chunk(2, 1);
  const at::Tensor text_time = media.cumsum(0).unsqueeze(1);
  const at::Tensor media_time =
      at::arange(1, images.size(0) + 1, at::kLong).repeat_interleave(images.size(1));
  at::Tensor scores =
      at::matmul(q, by_head(kv[0]).transpose(1, 2)).masked_fill(text_time != media_time, -1e300);
  const at::Tensor probs = at::softmax(scores, -1).masked_fill(text_time == 0, 0.0);
  const at::Tensor out = at::matmul(probs, by_head(kv[1])).transpose(0, 1).flatten(1);
  return at::matmul(out, p.at("attn.to_out.weight").t());
}

at::Tensor flamingo_block(const Bound& of, const at::Tensor& x_td, const at::Tensor& images,
                          const at::Tensor& media) {
  const auto& p = of.params;
  const at::Tensor x =
      x_td + p.at("attn_gate").tanh() * flamingo_attention(of, x_td, images, media);
  const at::Tensor normed = at::layer_norm(x, {32}, p.at("ff.0.weight"), p.at("ff.0.bias"), 1e-5);
  const at::Tensor up = at::gelu(at::matmul(normed, p.at("ff.1.weight").t()));
  return x + p.at("ff_gate").tanh() * at::matmul(up, p.at("ff.3.weight").t());
}

TEST(GatedCross, IsOpenFlamingosBlockForwardAndBackward) {
  const Bound bound = bound_cross(true);
  const at::Tensor x = at::randn({2, 5, 32}, at::kDouble).set_requires_grad(true);
  const at::Tensor rows = at::randn({3, 3, 24}, at::kDouble).set_requires_grad(true);
  Bound& block = const_cast<Bound&>(bound);
  const at::Tensor ours = block.block.forward({x, five_tokens(), rows}, {})[0];
  const at::Tensor theirs = at::stack(
      {flamingo_block(bound, x[0], rows.narrow(0, 0, 2), at::tensor({0, 1, 0, 1, 0}, at::kLong)),
       flamingo_block(bound, x[1], rows.narrow(0, 2, 1), at::tensor({0, 0, 1, 0, 0}, at::kLong))});
  EXPECT_LT((ours - theirs).abs().max().item<double>(), 1e-12);
  Tensors leaves = bound.list;
  leaves.insert(leaves.end(), {x, rows});
  const at::Tensor weight = at::randn(ours.sizes(), at::kDouble);
  const auto gradients = [&](const at::Tensor& y) {
    Tensors found;
    (y * weight).sum().backward();
    for (at::Tensor& leaf : leaves) {
      found.push_back(leaf.grad().clone());
      leaf.mutable_grad().reset();
    }
    return found;
  };
  const Tensors a = gradients(ours), b = gradients(theirs);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_GT(b[i].abs().max().item<double>(), 1e-4) << i;
    EXPECT_LT((a[i] - b[i]).abs().max().item<double>(), 1e-11) << i;
  }
}

// Oracle 19.
TEST(GatedCross, BeginsAsTheIdentityOfWhichTheGatesAloneHaveAGradient) {
  Bound bound = bound_cross(false);
  const at::Tensor x = at::randn({2, 5, 32}, at::kDouble).set_requires_grad(true);
  const at::Tensor rows = at::randn({3, 3, 24}, at::kDouble).set_requires_grad(true);
  const at::Tensor y = bound.block.forward({x, five_tokens(), rows}, {})[0];
  EXPECT_TRUE(at::equal(y, x));
  const at::Tensor weight = at::randn(y.sizes(), at::kDouble);
  (y * weight).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), weight));
  EXPECT_TRUE(at::equal(rows.grad(), at::zeros_like(rows)));
  for (const auto& [name, param] : bound.params) {
    const double most = param.grad().abs().max().item<double>();
    if (name.ends_with("gate"))
      EXPECT_GT(most, 1e-3) << name;
    else
      EXPECT_EQ(most, 0) << name;
  }
}

TEST(GatedCross, TextSeesTheLatestImageBeforeItAndNoOther) {
  Bound bound = bound_cross(true);
  bound.params.at("ff_gate").detach().zero_();
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::randn({2, 5, 32}, at::kDouble);
  const at::Tensor rows = at::randn({3, 3, 24}, at::kDouble);
  const auto moved_by = [&](std::int64_t image) {
    at::Tensor others = rows.clone();
    others[image].neg_();
    const at::Tensor change = bound.block.forward({x, five_tokens(), rows}, {})[0] -
                              bound.block.forward({x, five_tokens(), others}, {})[0];
    return change.abs().amax(2).gt(1e-9);
  };
  for (std::int64_t image = 0; image < 3; ++image)
    EXPECT_TRUE(at::equal(moved_by(image), five_tokens() == 3 * image)) << image;
  // Text before any image goes on as it came.
  const at::Tensor y = bound.block.forward({x, five_tokens(), rows}, {})[0];
  EXPECT_TRUE(at::equal(y[0][0], x[0][0]));
  EXPECT_TRUE(at::equal(y[1].narrow(0, 0, 2), x[1].narrow(0, 0, 2)));
}

// A block of a job, its node and what it reads: four samples that see an image each.
struct Counted {
  explicit Counted(const std::vector<std::string>& sets)
      : job(crossing_job(with_sizes(sets))), bound(build(job), type()) {
    const std::vector<plan::Node>& nodes = bound.model().spec.program.nodes;
    while (nodes[at].name != "cross.0") ++at;
    // Gradients have memory of their own, in the type of sums.
    for (const auto& [name, param] : bound.params())
      if (param.requires_grad())
        at::Tensor(param).mutable_grad() =
            at::zeros(param.sizes(), at::TensorOptions().dtype(at::kFloat));
    const at::Tensor visual =
        (at::arange(4, at::kLong) * 16).unsqueeze(1).expand({4, 64}).contiguous();
    inputs = {at::randn({4, 64, 64}).to(type()).set_requires_grad(true), visual,
              at::randn({4, 16, 24}).to(type()).set_requires_grad(true)};
  }
  static std::vector<std::string> with_sizes(std::vector<std::string> sets) {
    sets.insert(sets.end(), {"run.micro_batch=4", "model.seq_len=64", "model.hidden=64",
                             "projector.queries=16"});
    return sets;
  }
  at::ScalarType type() const {
    return job.precision.compute == DType::kF32 ? at::kFloat : at::kBFloat16;
  }
  const plan::Node& node() const { return bound.model().spec.program.nodes[at]; }
  at::Tensor forward() { return bound.block(at).forward(inputs, {.training = true})[0]; }

  config::Job job;
  harness::BoundModel bound;
  std::size_t at = 0;
  Tensors inputs;
};

TEST(GatedCross, KeepsWhatItsNodeDeclares) {
  for (const char* type : {"precision.compute=fp32", "precision.compute=bf16"})
    for (const char* frozen : {"model.frozen=", "model.frozen=cross.*"}) {
      Counted counted({type, frozen});
      const harness::CountAllocations count;
      const std::int64_t before = count.live_bytes();
      const at::Tensor y = counted.forward();
      const auto kept =
          static_cast<double>(count.live_bytes() - before - static_cast<std::int64_t>(y.nbytes()));
      const auto declared = static_cast<double>(plan::kept_bytes(counted.node()));
      EXPECT_NEAR(kept, declared, 0.02 * declared) << type << " " << frozen;
    }
}

// The formulas are those of our kernels.
TEST(GatedCross, HoldsNoMoreThanItsNodeDeclares) {
  Counted counted({"precision.compute=fp32"});
  const plan::NodeWork& work = counted.node().work;
  const harness::CountAllocations count;
  const std::int64_t row = 4 * 64 * 64 * 4, seen = 4 * 16 * 24 * 4;
  const auto expect_within = [](std::int64_t measured, std::int64_t declared, const char* line) {
    EXPECT_LE(measured, declared + declared / 50) << line;
    EXPECT_GE(measured, declared * 7 / 10) << line;
  };
  {
    const at::NoGradGuard no_grad;
    counted.forward();  // what is made once
    expect_within(count.peak_of([&] { counted.forward(); }), row + work.passing, "passing");
  }
  at::Tensor y;
  expect_within(count.peak_of([&] { y = counted.forward(); }),
                row + plan::kept_bytes(counted.node()) + work.forward, "forward");
  const torch::autograd::edge_list roots = {torch::autograd::impl::gradient_edge(y)};
  const torch::autograd::variable_list seeds = {at::ones_like(y)};
  y = at::Tensor();
  expect_within(count.peak_of([&] {
    torch::autograd::Engine::get_default_engine().execute(roots, seeds, false, false, true);
  }),
                row + seen + work.backward, "backward");
}

TEST(Generate, AnImageApartChangesWhatIsSaidBehindIt) {
  const harness::BoundModel sees(build(crossing_job()), at::kDouble);
  for (const auto& [name, param] : sees.params())
    if (name.ends_with("gate")) param.detach().fill_(1);
  const at::Tensor tokens = at::tensor({3, 256, 4, 1, 5}, at::kLong).view({1, 5});
  const auto behind = [&](const at::Tensor& tiles, std::int64_t first) {
    const at::Tensor visual = at::tensor({-1, 0, 0, 0, 0}, at::kLong).view({1, 5});
    return next_logits(sees.model(),
                       {tokens, tokens, at::where(visual >= 0, visual + first, visual), tiles});
  };
  const at::Tensor tiles = at::randn({2, 3, 32, 32}, at::kFloat);
  EXPECT_TRUE(at::equal(behind(tiles, 0), behind(tiles, 0)));
  EXPECT_FALSE(at::equal(behind(tiles, 0), behind(-tiles, 0)));
  EXPECT_FALSE(at::equal(behind(tiles, 0), behind(tiles, 3)));
}

}  // namespace
}  // namespace trireme::blocks::gated_cross_test
