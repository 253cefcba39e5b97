// A block of Qwen2 and of Qwen3, and of Llama's other relatives, against a few lines of plain operators.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/harness/bound_model.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::qwen_test {
namespace {

constexpr std::int64_t kTokens = 10, kHidden = 16, kHeads = 4, kKeyValueHeads = 2, kWidth = 6;

// A decoder of one layer, and what its scaling makes of frequencies and of cosines and sines.
struct Decoder {
  bool bias = false, norm = false;
  std::string rope{};
  double slower = 1, amplitude = 1;
  std::string layers{};
  std::int64_t window = kTokens;
  bool rotary = true;
};

config::Job job_of(const Decoder& decoder) {
  config::Job job;
  job.model = {.family = config::Family::kLlama,
               .layers = 1,
               .hidden = kHidden,
               .heads = kHeads,
               .kv_heads = kKeyValueHeads,
               .head_dim = kWidth,
               .qkv_bias = decoder.bias,
               .qk_norm = decoder.norm,
               .attention_layers = decoder.layers,
               .ffn = 20,
               .vocab = 31,
               .seq_len = kTokens,
               .norm_eps = 1e-3,
               .rope_scaling = decoder.rope};
  job.precision.compute = DType::kF64;
  return job;
}

at::Tensor rms(const at::Tensor& x, const at::Tensor& gain) {
  return x * at::rsqrt(x.square().mean(-1, true) + 1e-3) * gain;
}

// [heads, tokens, width]: channel i with channel i + width / 2.
at::Tensor turned(const at::Tensor& x, const Decoder& decoder) {
  const std::int64_t half = kWidth / 2;
  const at::Tensor frequencies =
      at::pow(10000, at::arange(half, at::kDouble) * -2.0 / static_cast<double>(kWidth)) /
      decoder.slower;
  const at::Tensor angles = at::arange(kTokens, at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return decoder.amplitude * at::cat({low * angles.cos() - high * angles.sin(),
                                      high * angles.cos() + low * angles.sin()},
                                     2);
}

// x: [tokens, hidden]. `p` by the end of its name, undefined where the model has none.
at::Tensor block(const at::Tensor& x, const Decoder& decoder,
                 const std::function<at::Tensor(const std::string&)>& p) {
  const auto heads = [&](const at::Tensor& normed, const std::string& name,
                         const std::string& norm) {
    at::Tensor y = at::matmul(normed, p(name + ".weight").t());
    if (p(name + ".bias").defined()) y = y + p(name + ".bias");
    y = y.view({kTokens, -1, kWidth}).transpose(0, 1);
    if (norm.empty()) return y;
    const at::Tensor own = p(norm).defined() ? rms(y, p(norm)) : y;
    return decoder.rotary ? turned(own, decoder) : own;
  };
  const at::Tensor normed = rms(x, p("input_layernorm.weight"));
  const at::Tensor q = heads(normed, "q_proj", "q_norm.weight");
  const auto shared = [](const at::Tensor& kv) {
    return kv.repeat_interleave(kHeads / kKeyValueHeads, 0);
  };
  const at::Tensor k = shared(heads(normed, "k_proj", "k_norm.weight")),
                   v = shared(heads(normed, "v_proj", ""));
  const at::Tensor all = at::ones({kTokens, kTokens}, at::kBool);
  const at::Tensor unseen = all.triu(1).logical_or(all.tril(-decoder.window));
  const at::Tensor scores =
      (at::matmul(q, k.transpose(1, 2)) / std::sqrt(double{kWidth})).masked_fill(unseen, -INFINITY);
  const at::Tensor mixed = at::matmul(at::softmax(scores, -1), v).transpose(0, 1).flatten(1);
  const at::Tensor y = x + at::matmul(mixed, p("o_proj.weight").t());
  const at::Tensor up = rms(y, p("post_attention_layernorm.weight"));
  return y + at::matmul(at::silu(at::matmul(up, p("gate_proj.weight").t())) *
                            at::matmul(up, p("up_proj.weight").t()),
                        p("down_proj.weight").t());
}

TEST(Qwen, ABlockIsItsFormula) {
  const std::vector<Decoder> decoders = {
      {},
      {.bias = true},
      {.norm = true},
      {.rope = "linear factor=4", .slower = 4},
      // All of so short a text's frequencies are kept.
      {.rope = "yarn factor=4 original=1000000 attention=1.25", .amplitude = 1.25},
      {.norm = true, .layers = "sliding:3", .window = 3},
      {.layers = "sliding:10"},
      {.norm = true, .layers = "nope", .rotary = false}};
  for (const Decoder& decoder : decoders) {
    harness::BoundModel bound(build(job_of(decoder)), at::kDouble);
    // Biases of 0 and gains of 1 would hide where they stand.
    auto generator = at::make_generator<at::CPUGeneratorImpl>(5);
    for (const auto& [name, param] : bound.params())
      if (param.dim() == 1)
        at::Tensor(param.detach()).add_(at::randn(param.sizes(), generator, at::kDouble));
    const at::Tensor x = at::randn({kTokens, kHidden}, generator, at::kDouble);
    const at::Tensor ours = bound.block(1).forward({x.unsqueeze(0)}, {})[0].squeeze(0);
    const at::Tensor wanted = block(x, decoder, [&](const std::string& end) {
      for (const auto& [name, param] : bound.params())
        if (name.ends_with("." + end)) return param.detach();
      return at::Tensor();
    });
    EXPECT_LT((ours - wanted).abs().max().item<double>(), 1e-12)
        << decoder.bias << decoder.norm << decoder.rope << decoder.layers;
  }
}

}  // namespace
}  // namespace trireme::blocks::qwen_test
