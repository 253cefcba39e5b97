// OLMo 2 and 3, Gemma 2 and 3, Granite, Phi-3 and biases: against a few lines of plain operators on tensors as Hugging Face
// names them, written from the models' reports.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "tests/harness/model_directory.h"
#include "trireme/base/json.h"
#include "trireme/model/blocks/build.h"

namespace trireme::train::llama_relatives_test {
namespace {

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
  double score_cap = 0, logits_cap = 0;
  bool attention_bias = false, mlp_bias = false;
  bool fused = false;             // layers of Phi-3's files
  std::int64_t rotated = kWidth;  // the first channels of a head, which turn
  std::vector<double> factors = std::vector<double>(kWidth / 2, 1.0);  // divisors of frequencies
  double amplitude = 1;                                                // of cosines and sines
};

// Files of Phi-3: six channels of twelve turn, by the factors of long texts, as 14 tokens are more than 8; or all do, by
// those of short ones.
std::vector<Relative> phis() {
  const std::vector<double> some = {1.1, 1.5, 4}, many = {1, 1.2, 1.5, 2, 3, 5};
  const Json none = Json::array({9, 9, 9});
  const double length = kTokens / 8.0;
  return {{.type = "phi3",
           .more = {{"partial_rotary_factor", 0.55},
                    {"original_max_position_embeddings", 8},
                    {"sliding_window", 5},
                    {"rope_scaling",
                     {{"type", "longrope"}, {"short_factor", none}, {"long_factor", some}}}},
           .windows = {5, 5, 5},
           .fused = true,
           .rotated = 6,
           .factors = some,
           .amplitude = std::sqrt(1 + std::log(length) / std::log(8.0))},
          {.type = "phi3",
           .more = {{"rope_parameters",
                     {{"rope_type", "su"},
                      {"rope_theta", 500.0},
                      {"short_factor", many},
                      {"long_factor", std::vector<double>(6, 9)},
                      {"attention_factor", 1.25}}}},
           .theta = 500,
           .sliding_theta = 500,
           .fused = true,
           .factors = many,
           .amplitude = 1.25}};
}

// Gemma 2; Llama and `plain` with biases.
std::vector<Relative> capped_and_biased(const Relative& plain) {
  std::vector<Relative> all;
  all.push_back({.type = "gemma2",
                 .more = {{"hidden_activation", "gelu_pytorch_tanh"},
                          {"sliding_window", 4},
                          {"attn_logit_softcapping", 1.5},
                          {"final_logit_softcapping", 2.5},
                          {"query_pre_attn_scalar", 7}},
                 .after = true,
                 .gemma = true,
                 .scores = 1 / std::sqrt(7.0),
                 .embedding = std::sqrt(static_cast<double>(kHidden)),
                 .windows = {4, 0, 4},
                 .score_cap = 1.5,
                 .logits_cap = 2.5});
  const Json biases{{"attention_bias", true}, {"mlp_bias", true}};
  all.push_back({.type = "llama", .more = biases, .attention_bias = true, .mlp_bias = true});
  Relative granite = plain;
  granite.more.update(biases);
  granite.attention_bias = granite.mlp_bias = true;
  all.push_back(granite);
  return all;
}

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
  for (std::vector<Relative> more : {capped_and_biased(all[3]), phis()})
    std::ranges::move(more, std::back_inserter(all));
  return all;
}

// Tensors of a model directory, by name.
using Tensors = harness::NamedTensors;

Tensors drawn(const Relative& of) {
  Tensors all;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(all.size());
    all[name + ".weight"] = at::empty(shape, at::kFloat).normal_(0, 0.3, generator);
    const bool biased = name.find("self_attn") != name.npos ? of.attention_bias && shape.size() > 1
                        : name.find("mlp") != name.npos     ? of.mlp_bias
                                                            : false;
    if (biased) all[name + ".bias"] = at::empty({shape[0]}, at::kFloat).normal_(0, 0.3, generator);
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
  for (std::int64_t layer = 0; of.fused && layer < kLayers; ++layer) {
    const std::string name = fmt::format("model.layers.{}.", layer);
    const auto fuse = [&](const std::string& one, const std::vector<const char*>& parts) {
      Tensors::mapped_type& whole = written[name + one + ".weight"];
      for (const char* part : parts) {
        const auto found = written.find(name + part + ".weight");
        whole = whole.defined() ? at::cat({whole, found->second}) : found->second;
        written.erase(found);
      }
    };
    fuse("self_attn.qkv_proj", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"});
    fuse("mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj"});
  }
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

// [heads, tokens, width]: of the channels that turn, i turns with i + half of them.
at::Tensor turned(const Relative& of, const at::Tensor& x, double theta, double slower) {
  const std::int64_t half = of.rotated / 2;
  const at::Tensor frequencies =
      at::pow(theta, at::arange(half, at::kDouble) * -2.0 / static_cast<double>(of.rotated)) /
      slower / at::tensor(of.factors, at::kDouble).narrow(0, 0, half);
  const at::Tensor angles = at::arange(kTokens, at::kDouble).unsqueeze(1) * frequencies;
  const at::Tensor low = x.narrow(2, 0, half), high = x.narrow(2, half, half),
                   cosines = angles.cos() * of.amplitude, sines = angles.sin() * of.amplitude;
  return at::cat({low * cosines - high * sines, high * cosines + low * sines,
                  x.narrow(2, of.rotated, kWidth - of.rotated)},
                 2);
}

at::Tensor capped(const at::Tensor& x, double cap) { return cap > 0 ? cap * (x / cap).tanh() : x; }

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
    const at::Tensor logits =
        capped(at::matmul(norm(x, "model.norm"), head.t()) / of_.logits, of_.logits_cap);
    return -at::log_softmax(logits, 1).gather(1, targets.unsqueeze(1)).sum().item<double>();
  }

 private:
  at::Tensor p(const std::string& name) const {
    return tensors_.at(name + ".weight").to(at::kDouble);
  }
  at::Tensor linear(const at::Tensor& x, const std::string& name) const {
    const at::Tensor y = at::matmul(x, p(name).t());
    const auto bias = tensors_.find(name + ".bias");
    return bias == tensors_.end() ? y : y + bias->second.to(at::kDouble);
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
    const at::Tensor q = turned(of_, heads(x, name, 'q'), theta, slower),
                     k = turned(of_, heads(x, name, 'k'), theta, slower);
    at::Tensor hidden = at::ones({kTokens, kTokens}, at::kBool).triu(1);
    if (window > 0) hidden = hidden | at::ones({kTokens, kTokens}, at::kBool).tril(-window);
    const double factor = of_.scores > 0 ? of_.scores : 1 / std::sqrt(static_cast<double>(kWidth));
    const at::Tensor scores = capped(at::matmul(q, k.transpose(1, 2)) * factor, of_.score_cap);
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
  int made = 0;
  for (const Relative& relative : relatives()) {
    SCOPED_TRACE(relative.type);
    const Tensors tensors = drawn(relative);
    const Path directory = scratch / std::to_string(made++);
    write(tensors, relative, directory);
    const convert::HuggingFaceWeights weights(directory);
    config::Job job = weights.job();
    job.precision.compute = DType::kF64;
    harness::BoundModel model(blocks::build(job), at::kDouble);
    EXPECT_EQ(harness::read_weights(weights, model), tensors.size());
    const at::NoGradGuard no_grad;
    const double loss = model.loss(tokens.unsqueeze(0), targets.unsqueeze(0)).item<double>();
    EXPECT_NEAR(loss, Plain(relative, tensors).loss(tokens, targets), 1e-10);
  }
}

}  // namespace
}  // namespace trireme::train::llama_relatives_test
