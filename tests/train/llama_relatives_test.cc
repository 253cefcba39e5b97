// OLMo 2 and 3, Gemma 3 and Granite: against a few lines of plain operators on tensors as Hugging Face names them, written
// from the models' reports; any layout trains the same model, in fp64 to 1e-12 and data-parallel to the bit.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/harness/model_directory.h"
#include "tests/harness/small_jobs.h"
#include "trireme/base/json.h"
#include "trireme/model/blocks/build.h"

namespace trireme::train::llama_relatives_test {
namespace {

using harness::expect_parity;
using harness::NamedLayout;
using harness::Sets;
using harness::operator+;

// ---- the function -------------------------------------------------------------------------------------

constexpr std::int64_t kLayers = 3, kHidden = 32, kHeads = 4, kKeyHeads = 2, kWidth = 12,
                       kInner = 40, kVocab = 61, kTokens = 14;

struct Relative {
  const char* type;
  Json more;  // of config.json
  bool before = true, after = false, gemma = false;
  enum { kNone, kHead, kWhole } head_norm = kNone;
  double scores = 0, embedding = 1, residual = 1, logits = 1;  // scores 0: 1 / sqrt(kWidth)
  std::vector<std::int64_t> windows = {0, 0, 0};
  bool tower = false;  // a model that sees, of which the decoder is read
  double theta = 1e4, sliding_theta = 1e4, linear = 1;  // linear: full layers turn so much slower
};

std::vector<Relative> relatives() {
  const Json types{"sliding_attention", "sliding_attention", "full_attention"};
  std::vector<Relative> all = {
      {.type = "olmo2",
       .more = Json::object(),
       .before = false,
       .after = true,
       .head_norm = Relative::kWhole},
      {.type = "olmo3",
       .more = {{"layer_types", types},
                {"sliding_window", 5},
                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 3.0}}}},
       .before = false,
       .after = true,
       .head_norm = Relative::kWhole,
       .windows = {5, 5, 0},
       .linear = 3},
      {.type = "gemma3_text",
       .more = {{"hidden_activation", "gelu_pytorch_tanh"},
                {"sliding_window_pattern", 2},
                {"sliding_window", 4},
                {"rope_theta", 5000.0},
                {"rope_local_base_freq", 100.0},
                {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                {"query_pre_attn_scalar", 20}},
       .after = true,
       .gemma = true,
       .head_norm = Relative::kHead,
       .scores = 1 / std::sqrt(20.0),
       .embedding = std::sqrt(static_cast<double>(kHidden)),
       .windows = {4, 0, 4},
       .theta = 5000,
       .sliding_theta = 100,
       .linear = 8},
      {.type = "granite",
       .more = {{"embedding_multiplier", 12.0},
                {"residual_multiplier", 0.22},
                {"attention_multiplier", 0.015625},
                {"logits_scaling", 8}},
       .scores = 0.015625,
       .embedding = 12,
       .residual = 0.22,
       .logits = 8}};
  Relative seeing = all[2];
  seeing.type = "gemma3";
  seeing.tower = true;
  all.push_back(seeing);
  return all;
}

// Tensors of a model directory, by name.
using Tensors = harness::NamedTensors;

Tensors drawn(const Relative& of) {
  Tensors all;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(all.size());
    all[name + ".weight"] = at::empty(shape, at::kFloat).normal_(0, 0.3, generator);
  };
  add("model.embed_tokens", {kVocab, kHidden});
  for (std::int64_t layer = 0; layer < kLayers; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    if (of.before) add(name + "input_layernorm", {kHidden});
    add(name + "post_attention_layernorm", {kHidden});
    if (of.before && of.after) add(name + "pre_feedforward_layernorm", {kHidden});
    if (of.after) add(name + "post_feedforward_layernorm", {kHidden});
    const bool whole = of.head_norm == Relative::kWhole;
    if (of.head_norm != Relative::kNone) {
      add(name + "self_attn.q_norm", {whole ? kHeads * kWidth : kWidth});
      add(name + "self_attn.k_norm", {whole ? kKeyHeads * kWidth : kWidth});
    }
    add(name + "self_attn.q_proj", {kHeads * kWidth, kHidden});
    add(name + "self_attn.k_proj", {kKeyHeads * kWidth, kHidden});
    add(name + "self_attn.v_proj", {kKeyHeads * kWidth, kHidden});
    add(name + "self_attn.o_proj", {kHidden, kHeads * kWidth});
    add(name + "mlp.gate_proj", {kInner, kHidden});
    add(name + "mlp.up_proj", {kInner, kHidden});
    add(name + "mlp.down_proj", {kHidden, kInner});
  }
  add("model.norm", {kHidden});
  if (!of.gemma) add("lm_head", {kVocab, kHidden});
  return all;
}

void write(const Tensors& tensors, const Relative& of, const Path& directory) {
  harness::NamedTensors written;
  for (const auto& [name, tensor] : tensors)
    written[(of.tower ? "language_model." : "") + name] = tensor;
  if (of.tower) written["vision_tower.norm.weight"] = tensors.at("model.norm.weight");
  Json json{{"model_type", of.type},
            {"hidden_size", kHidden},
            {"num_hidden_layers", kLayers},
            {"num_attention_heads", kHeads},
            {"num_key_value_heads", kKeyHeads},
            {"head_dim", kWidth},
            {"intermediate_size", kInner},
            {"vocab_size", kVocab},
            {"max_position_embeddings", kTokens},
            {"rms_norm_eps", 0.001}};
  json.update(of.more);
  if (of.tower) json = {{"model_type", of.type}, {"text_config", json}};
  harness::write_model(written, json.dump(), directory);
}

// [heads, tokens, width]: channel i turns with channel i + width / 2.
at::Tensor turned(const at::Tensor& x, double theta, double slower) {
  const std::int64_t half = kWidth / 2;
  const at::Tensor frequencies =
      at::pow(theta, at::arange(half, at::kDouble) * -2.0 / static_cast<double>(kWidth)) / slower;
  const at::Tensor angles = at::arange(kTokens, at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half);
  return at::cat(
      {low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()}, 2);
}

class Plain {
 public:
  Plain(const Relative& of, const Tensors& tensors) : of_(of), tensors_(tensors) {}

  // Summed cross-entropy of one sequence.
  double loss(const at::Tensor& tokens, const at::Tensor& targets) const {
    at::Tensor x = p("model.embed_tokens").index_select(0, tokens) * of_.embedding;
    for (std::int64_t layer = 0; layer < kLayers; ++layer) {
      const std::string name = fmt::format("model.layers.{}.", layer);
      at::Tensor branch =
          attention(of_.before ? norm(x, name + "input_layernorm") : x, name, layer);
      if (of_.after) branch = norm(branch, name + "post_attention_layernorm");
      x = x + branch * of_.residual;
      const char* second = of_.after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
      branch = feed_forward(of_.before ? norm(x, name + second) : x, name + "mlp.");
      if (of_.after) branch = norm(branch, name + "post_feedforward_layernorm");
      x = x + branch * of_.residual;
    }
    const at::Tensor head = p(of_.gemma ? "model.embed_tokens" : "lm_head");
    const at::Tensor logits = at::matmul(norm(x, "model.norm"), head.t()) / of_.logits;
    return -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).sum().item<double>();
  }

 private:
  at::Tensor p(const std::string& name) const {
    return tensors_.at(name + ".weight").to(at::kDouble);
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    return at::matmul(x, p(name).t());
  }
  at::Tensor norm(const at::Tensor& x, const std::string& name) const {
    const at::Tensor gain = of_.gemma ? 1 + p(name) : p(name);
    return x * (x.square().mean(-1, true) + 0.001).rsqrt() * gain;
  }
  at::Tensor heads(const at::Tensor& x, const std::string& name, char which) const {
    at::Tensor all = linear(x, fmt::format("{}self_attn.{}_proj", name, which));
    const std::string normed = fmt::format("{}self_attn.{}_norm", name, which);
    if (which != 'v' && of_.head_norm == Relative::kWhole) all = norm(all, normed);
    all = all.view({kTokens, -1, kWidth});
    if (which != 'v' && of_.head_norm == Relative::kHead) all = norm(all, normed);
    all = all.transpose(0, 1);
    return which == 'q' ? all : all.repeat_interleave(kHeads / kKeyHeads, 0);
  }
  at::Tensor attention(const at::Tensor& x, const std::string& name, std::int64_t layer) const {
    const std::int64_t window = of_.windows[static_cast<std::size_t>(layer)];
    const double theta = window > 0 ? of_.sliding_theta : of_.theta,
                 slower = window > 0 ? 1 : of_.linear;
    const at::Tensor q = turned(heads(x, name, 'q'), theta, slower),
                     k = turned(heads(x, name, 'k'), theta, slower);
    at::Tensor hidden = at::ones({kTokens, kTokens}, at::kBool).triu(1);
    if (window > 0) hidden = hidden | at::ones({kTokens, kTokens}, at::kBool).tril(-window);
    const double factor = of_.scores > 0 ? of_.scores : 1 / std::sqrt(static_cast<double>(kWidth));
    const at::Tensor scores = at::matmul(q, k.transpose(1, 2)) * factor;
    const at::Tensor weights =
        at::softmax(scores.masked_fill(hidden, -std::numeric_limits<double>::infinity()), 2);
    return linear(at::matmul(weights, heads(x, name, 'v')).transpose(0, 1).reshape({kTokens, -1}),
                  name + "self_attn.o_proj");
  }
  at::Tensor feed_forward(const at::Tensor& x, const std::string& name) const {
    const at::Tensor gate = linear(x, name + "gate_proj");
    return linear(
        (of_.gemma ? at::gelu(gate, "tanh") : at::silu(gate)) * linear(x, name + "up_proj"),
        name + "down_proj");
  }

  const Relative& of_;
  const Tensors& tensors_;
};

TEST(LlamaRelatives, ComputeWhatTheirFilesDescribe) {
  const formats::Scratch scratch;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const auto options = at::TensorOptions().dtype(at::kLong);
  const at::Tensor tokens = at::randint(kVocab, {kTokens}, generator, options),
                   targets = at::randint(kVocab, {kTokens}, generator, options);
  for (const Relative& relative : relatives()) {
    SCOPED_TRACE(relative.type);
    const Tensors tensors = drawn(relative);
    write(tensors, relative, scratch / relative.type);
    const convert::HuggingFaceWeights weights(scratch / relative.type);
    config::Job job = weights.job();
    job.precision.compute = DType::kF64;
    harness::BoundModel model(blocks::build(job), at::kDouble);
    EXPECT_EQ(harness::read_weights(weights, model), tensors.size());
    const at::NoGradGuard no_grad;
    const double loss = model.loss(tokens.unsqueeze(0), targets.unsqueeze(0)).item<double>();
    EXPECT_NEAR(loss, Plain(relative, tensors).loss(tokens, targets), 1e-10);
  }
}

// ---- layouts --------------------------------------------------------------------------------------------

// Heads that are wider than hidden / heads, of which two read one key-value head.
config::Job job_of(DType compute, const Sets& sets) {
  return harness::small_llama(compute, Sets{"model.head_dim=12"} + sets);
}

const Sets kOlmo = {"llama.norms=after", "model.qk_norm=true", "llama.whole_qk_norm=true",
                    "model.tied=false"};
const Sets kGemma = {"llama.norms=both",
                     "model.qk_norm=true",
                     "llama.gains_from_one=true",
                     "llama.gate=gelu_tanh",
                     "llama.embedding_multiplier=5.6",
                     "llama.sliding_theta=100",
                     "model.attention_layers=sliding:6,full",
                     "model.rope_scaling=linear factor=4"};
const Sets kGranite = {"llama.embedding_multiplier=12", "llama.residual_multiplier=0.22",
                       "llama.attention_multiplier=0.05", "llama.logits_divisor=8",
                       "model.attention_layers=full,nope"};
const Sets kLora = {"lora.rank=3", "lora.dropout=0.1"};
const Sets kFrozen = {"model.frozen=embed,block.0", "model.tied=false"};
const Sets kDocuments = {"data.documents=true"};

const std::vector<NamedLayout> kLayouts = {
    {"tp 2", {"parallel.tp=2"}},
    {"tp 3", {"parallel.tp=3"}},
    {"tp 4 without shared rows", {"parallel.tp=4", "parallel.sequence_parallel=false"}},
    {"tp 2, ZeRO-3", {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
    {"tp 2, recompute",
     {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=2", "recompute.policy=full"}},
    {"parts computed again", {"recompute.policy=selective", "recompute.parts=attention,mlp"}},
    {"cp 2", {"parallel.cp=2"}},
    {"Ulysses 2, ZeRO-3", {"parallel.cp=2", "parallel.context=ulysses", "parallel.zero=3"}},
    {"tp 2, cp 2 by all_gather", {"parallel.tp=2", "parallel.cp=2", "parallel.context=all_gather"}},
    {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};

TEST(LlamaRelativesParity, EveryLayoutTrainsTheSameModel) {
  const auto expect = [](const Sets& family, const std::vector<NamedLayout>& layouts) {
    SCOPED_TRACE(harness::print(family));
    expect_parity([&](const Sets& layout) { return job_of(DType::kF64, family + layout); },
                  layouts);
  };
  for (const Sets& family : {kOlmo, kGemma, kGranite}) expect(family, kLayouts);
  const std::vector<NamedLayout> few = {
      {"tp 2, cp 2", {"parallel.tp=2", "parallel.cp=2"}},
      {"pp 2, weights later", {"parallel.pp=2", "parallel.schedule=zb_h1", "parallel.tp=2"}}};
  for (const Sets& family :
       {kOlmo + kLora, kGemma + kFrozen, kGranite + kDocuments, kGemma + kDocuments})
    expect(family, few);
}

TEST(LlamaRelativesParity, LayoutsWithoutTensorRanksHaveTheBitsOfOneRank) {
  // Stages add the two gradients of a tied embedding in another order.
  const Sets untied = {"model.tied=false"};
  for (const Sets& family : {kOlmo, kGemma, kGranite}) {
    const harness::JobTrace one = harness::run_job(job_of(DType::kBF16, family + untied), 2);
    for (const Sets& layout :
         {Sets{"parallel.dp_shard=4"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"},
          Sets{"parallel.pp=2"}, Sets{"recompute.policy=selective"}}) {
      SCOPED_TRACE(harness::print(family + layout));
      harness::expect_same(one,
                           harness::run_job(job_of(DType::kBF16, family + untied + layout), 2));
    }
  }
}

TEST(LlamaRelativesParity, WhatIsTheirOwnChangesTheFunction) {
  const Sets base = {"model.qk_norm=true", "model.attention_layers=sliding:6,full"};
  const harness::JobTrace plain = harness::run_job(job_of(DType::kF64, base), 2);
  for (const char* set :
       {"llama.norms=after", "llama.norms=both", "llama.whole_qk_norm=true", "llama.gate=gelu_tanh",
        "llama.sliding_theta=100", "llama.attention_multiplier=0.05",
        "llama.embedding_multiplier=3", "llama.residual_multiplier=0.3", "llama.logits_divisor=8"})
    EXPECT_NE(plain.losses, harness::run_job(job_of(DType::kF64, base + Sets{set}), 2).losses)
        << set;
  // Gains begin at 0 and are added to 1: the same function.
  const harness::JobTrace from_one =
      harness::run_job(job_of(DType::kF64, base + Sets{"llama.gains_from_one=true"}), 1);
  EXPECT_NEAR(plain.losses[0], from_one.losses[0], 1e-12);
}

}  // namespace
}  // namespace trireme::train::llama_relatives_test
