#include "trireme/model/families/language_model.h"

#include <cmath>
#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/config/layer_attention.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/families/chain.h"
#include "trireme/model/graph.h"
#include "trireme/model/training.h"

namespace trireme::model {
namespace {

using config::Model;

ModelSpec built(Graph graph, const Model& model) {
  ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = model.seq_len;
  return spec;
}

// Matrices are drawn from N(0, init_std^2). Those that write to the residual stream have a deviation smaller by sqrt(2
// layers) (GPT-2's report; Megatron does so for every family).
struct Initial {
  explicit Initial(const Model& model)
      : matrix{.kind = Init::Kind::kNormal, .std = model.init_std},
        residual{.kind = Init::Kind::kNormal,
                 .std = model.init_std / std::sqrt(2.0 * static_cast<double>(model.layers))} {}
  Init matrix;
  Init residual;
};

// Cuts by whole heads and by single features.
struct Cuts {
  Cuts(const Model& model, const PerRank& rank)
      : width(config::head_width(model)),
        q{.granules = model.heads, .size = width},
        kv{.granules = model.kv_heads, .size = width, .sharers = model.heads / model.kv_heads},
        whole{.partial = rank.sequence} {}

  static Cut rows(std::vector<CutSegment> segments) {
    return {.dim = 0, .segments = std::move(segments)};
  }
  static Cut columns(std::vector<CutSegment> segments) {
    return {.dim = 1, .segments = std::move(segments)};
  }
  static CutSegment each(std::int64_t features) { return {.granules = features}; }

  std::int64_t width;  // of a head
  CutSegment q;
  CutSegment kv;
  Cut whole;
};

ParamSpec matrix(std::string name, std::int64_t out, std::int64_t in, const Init& init, Cut cut) {
  return {.name = std::move(name), .shape = {out, in}, .init = init, .cut = std::move(cut)};
}
ParamSpec vector(std::string name, std::int64_t size, Init::Kind init, Cut cut) {
  return {.name = std::move(name),
          .shape = {size},
          .init = {.kind = init},
          .decay = 0,
          .cut = std::move(cut)};
}
ParamSpec gain(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kOnes, cut);
}
ParamSpec bias(std::string name, std::int64_t size, const Cut& cut) {
  return vector(std::move(name), size, Init::Kind::kZeros, cut);
}

// LayerNorm takes mean, variance, scale and shift; RMSNorm squares, scale and gain.
constexpr double kLayerNormFlops = 8, kRmsNormFlops = 4;

// Blocks and head of GPT-2; `rotated` as TrainedBlock's.
void gpt_blocks(Chain& chain, const Model& model, const Sizes& sizes, const PerRank& rank,
                std::int64_t rotated) {
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t ffn = model.ffn;
  const Cut qkv = Cuts::rows({cut.q, cut.kv, cut.kv});
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const std::string h = fmt::format("transformer.h.{}.", layer);
    chain.block(
        {.params = {gain(h + "ln_1.weight", d, cut.whole), bias(h + "ln_1.bias", d, cut.whole),
                    matrix(h + "attn.c_attn.weight", 3 * d, d, init.matrix, qkv),
                    bias(h + "attn.c_attn.bias", 3 * d, qkv),
                    matrix(h + "attn.c_proj.weight", d, d, init.residual, Cuts::columns({cut.q})),
                    bias(h + "attn.c_proj.bias", d, cut.whole),
                    gain(h + "ln_2.weight", d, cut.whole), bias(h + "ln_2.bias", d, cut.whole),
                    matrix(h + "mlp.c_fc.weight", ffn, d, init.matrix, features),
                    bias(h + "mlp.c_fc.bias", ffn, features),
                    matrix(h + "mlp.c_proj.weight", d, ffn, init.residual,
                           Cuts::columns({Cuts::each(ffn)})),
                    bias(h + "mlp.c_proj.bias", d, cut.whole)},
         .attention = {2, 4},
         .mlp = {8, 10},
         .block = {.statistics = 2,
                   .norm_flops = kLayerNormFlops,
                   .inner = sizes.ffn,
                   .rotated = rotated,
                   .sums = rank.sequence ? 6 : 4}});
  }
  std::vector<ParamSpec> head = {gain("transformer.ln_f.weight", d, cut.whole),
                                 bias("transformer.ln_f.bias", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), 2);
}

ParamSpec token_table(std::string name, const Model& model) {
  return matrix(std::move(name), model.vocab, model.hidden, Initial(model).matrix,
                Cuts::rows({Cuts::each(model.vocab)}));
}

}  // namespace

ParamSpec gpt_embedding(const Model& model) { return token_table("transformer.wte.weight", model); }

ModelSpec gpt_spec(const Model& model, const PerRank& rank, const Training& training) {
  const Sizes sizes(model, rank);
  Graph graph("gpt", rank, training);
  Chain chain(graph, model, sizes);
  chain.embed({gpt_embedding(model), matrix("transformer.wpe.weight", model.seq_len, sizes.d,
                                            Initial(model).matrix, Cuts(model, rank).whole)},
              /*places of rows*/ sizes.spread && !(rank.documents && sizes.rows == sizes.tokens)
                  ? sizes.rows * 8
                  : 0);
  gpt_blocks(chain, model, sizes, rank, 0);
  return built(std::move(graph), model);
}

void gpt_after(Graph& graph, const Model& model, const Embedded& embedded) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  gpt_blocks(chain, model, sizes, graph.rank(), model.hidden / model.heads);
}

namespace {

// After the other parameters of a block: biases of queries, keys and values, then gains of queries and of keys.
void add_qwen_params(const std::string& prefix, const Model& model, const Cuts& cut,
                     const PerRank& rank, std::vector<ParamSpec>& params) {
  const std::string attention = prefix + "self_attn.";
  if (model.qkv_bias)
    for (const auto& [name, heads] :
         {std::pair{"q_proj", cut.q}, std::pair{"k_proj", cut.kv}, std::pair{"v_proj", cut.kv}})
      params.push_back(
          bias(attention + name + ".bias", heads.granules * heads.size, Cuts::rows({heads})));
  if (model.qk_norm)
    for (const char* name : {"q_norm", "k_norm"})  // of each rank's own heads
      params.push_back(gain(attention + name + ".weight", cut.width, {.partial = rank.tp > 1}));
}

// Blocks and head of Llama.
void llama_blocks(Chain& chain, const Model& model, const Sizes& sizes, const PerRank& rank,
                  const AfterBlock& after_block) {
  const Initial init(model);
  const Cuts cut(model, rank);
  const std::int64_t d = sizes.d;
  const std::int64_t q = cut.width * model.heads, kv = cut.width * model.kv_heads;
  const std::int64_t ffn = model.ffn;
  const Cut features = Cuts::rows({Cuts::each(ffn)});
  const std::vector<config::LayerAttention> layers = config::layer_attention(model);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string h = fmt::format("model.layers.{}.", layer);
    BlockSpec block = {
        .params = {gain(h + "input_layernorm.weight", d, cut.whole),
                   matrix(h + "self_attn.q_proj.weight", q, d, init.matrix, Cuts::rows({cut.q})),
                   matrix(h + "self_attn.k_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                   matrix(h + "self_attn.v_proj.weight", kv, d, init.matrix, Cuts::rows({cut.kv})),
                   matrix(h + "self_attn.o_proj.weight", d, q, init.residual,
                          Cuts::columns({cut.q})),
                   gain(h + "post_attention_layernorm.weight", d, cut.whole),
                   matrix(h + "mlp.gate_proj.weight", ffn, d, init.matrix, features),
                   matrix(h + "mlp.up_proj.weight", ffn, d, init.matrix, features),
                   matrix(h + "mlp.down_proj.weight", d, ffn, init.residual,
                          Cuts::columns({Cuts::each(ffn)}))},
        .attention = {1, 2, 3, 4},
        .mlp = {6, 7, 8},
        .block = {.statistics = 1,
                  .norm_flops = kRmsNormFlops,
                  .inner = 2 * sizes.ffn,
                  .rotated = layers[layer].rotary ? cut.width : 0,
                  .turned = layers[layer].rotary,
                  .window = layers[layer].window,
                  .normed_heads = model.qk_norm,
                  .sums = 2}};
    add_qwen_params(h, model, cut, rank, block.params);
    chain.block(std::move(block));
    if (after_block) chain.then(after_block(layer, chain.written()));
  }
  std::vector<ParamSpec> head = {gain("model.norm.weight", d, cut.whole)};
  if (!model.tied)
    head.push_back(matrix("lm_head.weight", model.vocab, d, init.matrix,
                          Cuts::rows({Cuts::each(model.vocab)})));
  chain.head(std::move(head), 1);
}

}  // namespace

ModelSpec llama_spec(const Model& model, const PerRank& rank, const Training& training) {
  const Sizes sizes(model, rank);
  Graph graph("llama", rank, training);
  Chain chain(graph, model, sizes);
  chain.embed({llama_embedding(model)}, 0);
  llama_blocks(chain, model, sizes, rank, {});
  return built(std::move(graph), model);
}

ParamSpec llama_embedding(const Model& model) {
  return token_table("model.embed_tokens.weight", model);
}

void llama_after(Graph& graph, const Model& model, const Embedded& embedded,
                 const AfterBlock& after_block) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  llama_blocks(chain, model, sizes, graph.rank(), after_block);
}

}  // namespace trireme::model
