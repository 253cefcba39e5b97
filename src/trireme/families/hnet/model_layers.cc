#include "trireme/families/hnet/model_layers.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/families/hnet/model.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/layers/decoder_params.h"

namespace trireme::model {
namespace {

Cut rows(std::vector<CutSegment> segments) { return {.dim = 0, .segments = std::move(segments)}; }
Cut columns(CutSegment segment) { return {.dim = 1, .segments = {segment}}; }

// Initial ranges of Mamba-2's reference code: steps are drawn log-uniformly, rates uniformly.
constexpr Init kSteps{.kind = Init::Kind::kStepOfLogUniform, .low = 1e-3, .high = 0.1};
constexpr Init kRates{.kind = Init::Kind::kLogOfUniform, .low = 1, .high = 16};

// As PyTorch draws the weights and biases of layers whose outputs read `inputs` numbers.
Init uniform_of(std::int64_t inputs) {
  const double bound = 1 / std::sqrt(static_cast<double>(inputs));
  return {.kind = Init::Kind::kUniform, .low = -bound, .high = bound};
}

// tp ranks have heads of their own, and all of them B and C, of whose gradients each has its heads' part.
std::vector<ParamSpec> mamba_params(std::int64_t d, const Initial& initial) {
  const Mamba mamba(d);
  const CutSegment features{.granules = mamba.heads, .size = Mamba::kWidth};
  const CutSegment shared{.granules = 1, .size = Mamba::kState, .sharers = mamba.heads};
  const CutSegment each{.granules = mamba.heads};
  const Cut convolved = rows({features, shared, shared});
  std::vector<ParamSpec> params;
  const std::string name = "mixer.";
  const auto vector = [&](const char* what, std::int64_t size, const Init& init, const Cut& cut) {
    params.push_back({.name = name + what, .shape = {size}, .init = init, .decay = 0, .cut = cut});
  };
  constexpr Init kOnes{.kind = Init::Kind::kOnes};
  params.push_back(matrix(name + "in_proj.weight", mamba.projected(), d, initial.matrix,
                          rows({features, features, shared, shared, each})));
  params.push_back({.name = name + "conv1d.weight",
                    .shape = {mamba.convolved(), 1, Mamba::kTaps},
                    .init = uniform_of(Mamba::kTaps),
                    .cut = convolved});
  vector("conv1d.bias", mamba.convolved(), uniform_of(Mamba::kTaps), convolved);
  vector("dt_bias", mamba.heads, kSteps, rows({each}));
  vector("A_log", mamba.heads, kRates, rows({each}));
  vector("D", mamba.heads, kOnes, rows({each}));
  vector("norm.weight", mamba.inner, kOnes, rows({features}));
  params.push_back(
      matrix(name + "out_proj.weight", d, mamba.inner, initial.residual, columns(features)));
  return params;
}

ParamSpec identity(std::string name, std::int64_t size) {
  return {.name = std::move(name), .shape = {size, size}, .init = {.kind = Init::Kind::kIdentity}};
}

}  // namespace

HnetParams::HnetParams(std::vector<config::HnetStage> stages, double init_std)
    : stages_(std::move(stages)), std_(init_std) {}

std::string HnetParams::prefix(std::size_t s) const {
  std::string name = "backbone.";
  for (std::size_t outer = 0; outer < s; ++outer) name += "main_network.";
  return name;
}

double HnetParams::residual_std(std::size_t s) const {
  std::int64_t writes = 0;
  for (std::size_t outer = 0; outer <= s; ++outer) writes += stages_[outer].writes();
  return std_ / std::sqrt(static_cast<double>(writes));
}

std::vector<ParamSpec> HnetParams::at_rate(std::size_t s, std::vector<ParamSpec> params) const {
  for (ParamSpec& param : params) param.lr = stages_[s].lr;
  return params;
}

std::vector<ParamSpec> HnetParams::embed(std::int64_t vocab) const {
  return at_rate(
      0, {drawn("embeddings.weight", {vocab, stages_[0].hidden}, 1, rows({{.granules = vocab}}))});
}

BlockLayers HnetParams::block(std::size_t s, bool decoder, std::size_t index,
                              const PerRank& rank) const {
  const config::HnetStage& stage = stages_[s];
  const char letter = (decoder ? stage.decoder : stage.encoder)[index];
  const std::string side = decoder ? "decoder." : stage.inner() ? "main_network." : "encoder.";
  const config::Model model = as_model(s);
  const Initial initial({.kind = Init::Kind::kNormal, .std = std_},
                        {.kind = Init::Kind::kNormal, .std = residual_std(s)});
  LayerList list(model, rank, fmt::format("{}{}layers.{}.", prefix(s), side, index), initial);
  constexpr LayerList::Bias kNone = LayerList::Bias::kNone;
  const LayerList::Branch first = list.rms_norm("norm1", 0);
  const int mixed = letter == 't' || letter == 'T'
                        ? list.attention_output(
                              "mixer.out_proj",
                              list.attention(list.heads(first.normed, "mixer.Wqkv", kNone),
                                             {.window = stage.window + 1}),  // with the token's own
                              kNone)
                        : list.mix(first.normed, mamba_params(stage.hidden, initial));
  if (letter == 'T' || letter == 'M') {
    const LayerList::Branch second = list.rms_norm("norm2", first.stream, mixed);
    const std::vector<int> wide = list.widen_together("mlp.fc1", second.normed);
    list.add(second.stream, list.narrow_gated("mlp.fc2", wide, config::GateActivation::kSilu, 1));
  } else {
    list.add(first.stream, mixed);
  }
  BlockLayers block = std::move(list).finish();
  block.params = at_rate(s, std::move(block.params));
  return block;
}

config::Model HnetParams::as_model(std::size_t s, std::int64_t positions) const {
  const config::HnetStage& stage = stages_[s];
  const std::int64_t heads = std::max(std::int64_t{1}, stage.heads);
  return {.family = config::Family::kLlama,
          .layers = 1,
          .hidden = stage.hidden,
          .heads = heads,
          .kv_heads = heads,
          .ffn = std::max(std::int64_t{1}, stage.ffn),
          .vocab = 1,
          .seq_len = positions};
}

std::vector<ParamSpec> HnetParams::route(std::size_t s) const {
  const std::int64_t d = stages_[s].hidden, more = stages_[s + 1].hidden - d;
  const std::string name = prefix(s);
  std::vector<ParamSpec> params =
      at_rate(s, {ones(name + "encoder.rmsnorm.weight", d),
                  identity(name + "routing_module.q_proj_layer.weight", d),
                  identity(name + "routing_module.k_proj_layer.weight", d)});
  if (more > 0)
    params.push_back(at_rate(s + 1, {zeros(prefix(s + 1) + "pad_dimension", more)}).front());
  return params;
}

std::vector<ParamSpec> HnetParams::join(std::size_t s) const {
  const std::int64_t d = stages_[s].hidden;
  const config::HnetStage& inside = stages_[s + 1];
  const std::string name = prefix(s);
  const std::string norm =
      prefix(s + 1) + (inside.inner() ? "main_network." : "decoder.") + "rmsnorm.weight";
  std::vector<ParamSpec> params = at_rate(s + 1, {ones(norm, inside.hidden)});
  const Init bias = uniform_of(d);
  for (ParamSpec& param :
       at_rate(s, {{.name = name + "residual_proj.weight", .shape = {d, d}},
                   {.name = name + "residual_proj.bias", .shape = {d}, .init = bias, .decay = 0}}))
    params.push_back(std::move(param));
  return params;
}

std::vector<ParamSpec> HnetParams::head(std::int64_t vocab) const {
  const std::int64_t d = stages_[0].hidden;
  return at_rate(0, {ones("backbone.decoder.rmsnorm.weight", d),
                     drawn("lm_head.weight", {vocab, d}, std_, rows({{.granules = vocab}}))});
}

}  // namespace trireme::model
