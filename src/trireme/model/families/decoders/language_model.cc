#include "trireme/model/families/decoders/language_model.h"

#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/llama.h"
#include "trireme/model/account/flops.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/graph.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/model/training.h"

namespace trireme::model {
namespace {

using config::Model;

ModelSpec built(Graph graph, const Model& model) {
  ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = model.seq_len;
  return spec;
}

// Draws of a block's dropout; the embedding's is 0.
enum Draw { kProbabilities = 1, kAfterAttention, kAfterMlp };

BlockLayers gpt_block(const Model& model, const PerRank& rank, std::int64_t layer, bool rotary) {
  LayerList list(model, rank, fmt::format("transformer.h.{}.", layer));
  const LayerList::Branch first = list.layer_norm("ln_1", 0);
  const int mixed = list.attention(list.heads(first.normed, "attn.c_attn"), {.rotary = rotary});
  list.drop(kProbabilities);
  const int attended = list.attention_output("attn.c_proj", mixed, LayerList::Bias::kHere);
  list.drop(kAfterAttention);
  const LayerList::Branch second = list.layer_norm("ln_2", first.stream, attended);
  const int narrow = list.narrow("mlp.c_proj", list.widen("mlp.c_fc", second.normed),
                                 config::Activation::kGeluTanh);
  list.drop(kAfterMlp);
  list.add(second.stream, narrow);
  return std::move(list).finish();
}

// Blocks and head of GPT-2; with `rotary`, queries and keys turn with their positions.
void gpt_blocks(Chain& chain, const Model& model, const PerRank& rank, bool rotary) {
  for (std::int64_t layer = 0; layer < model.layers; ++layer)
    chain.block(gpt_block(model, rank, layer, rotary));
  const Cut& whole = Cuts(model, rank).whole;
  std::vector<ParamSpec> head = {gain("transformer.ln_f.weight", model.hidden, whole),
                                 bias("transformer.ln_f.bias", model.hidden, whole)};
  if (!model.tied) head.push_back(token_table("lm_head.weight", model));
  chain.head(std::move(head), 2);
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
  gpt_blocks(chain, model, rank, false);
  return built(std::move(graph), model);
}

void gpt_after(Graph& graph, const Model& model, const Embedded& embedded) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  gpt_blocks(chain, model, graph.rank(), true);
}

namespace {

BlockLayers llama_block(const config::Job& job, const PerRank& rank, std::size_t layer,
                        const config::LayerAttention& attends) {
  using Bias = LayerList::Bias;
  using Branch = LayerList::Branch;
  const Model& model = job.model;
  const config::Llama& own = job.llama;
  const bool before = own.norms != config::NormPlaces::kAfter;
  const bool after = own.norms != config::NormPlaces::kBefore;
  LayerList list(model, rank, fmt::format("model.layers.{}.", layer));
  const auto norm = [&](const char* name, int x, std::optional<int> branch = {}) {
    return list.rms_norm(name, x, branch, own.gains_from_one);
  };
  const Branch first = before ? norm("input_layernorm", 0) : Branch{};
  const std::vector<int> qkv =
      list.heads(first.normed, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                 model.qkv_bias ? Bias::kLast : Bias::kNone);
  HeadNorms heads{.whole = own.whole_qk_norm, .from_one = own.gains_from_one};
  if (model.qk_norm) heads.names = {"self_attn.q_norm", "self_attn.k_norm"};
  const int mixed = list.attention(qkv, attends, heads, config::score_factor(job));
  int attended =
      list.attention_output("self_attn.o_proj", mixed, Bias::kNone, own.residual_multiplier);
  if (after) attended = norm("post_attention_layernorm", attended).normed;
  Branch second;
  if (before)
    second = norm(after ? "pre_feedforward_layernorm" : "post_attention_layernorm", first.stream,
                  attended);
  else
    second.stream = second.normed = list.add(first.stream, attended);
  const std::vector<int> wide = list.widen_gated({"mlp.gate_proj", "mlp.up_proj"}, second.normed);
  int fed = list.narrow_gated("mlp.down_proj", wide, own.gate, own.residual_multiplier);
  if (after) fed = norm("post_feedforward_layernorm", fed).normed;
  list.add(second.stream, fed);
  return std::move(list).finish();
}

// Blocks and head of Llama.
void llama_blocks(Chain& chain, const config::Job& job, const PerRank& rank,
                  const AfterBlock& after_block) {
  const Model& model = job.model;
  const std::vector<config::LayerAttention> layers = config::layer_attention(model);
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    chain.block(llama_block(job, rank, layer, layers[layer]));
    if (after_block) chain.then(after_block(layer, chain.written()));
  }
  std::vector<ParamSpec> head = {gain("model.norm.weight", model.hidden, Cuts(model, rank).whole)};
  if (job.llama.gains_from_one) head[0].init.kind = Init::Kind::kZeros;
  if (!model.tied) head.push_back(token_table("lm_head.weight", model));
  chain.head(std::move(head), 1);
}

}  // namespace

ModelSpec llama_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  const Sizes sizes(job.model, rank);
  Graph graph("llama", rank, training);
  Chain chain(graph, job.model, sizes);
  chain.embed({llama_embedding(job.model)}, 0, job.llama.embedding_multiplier != 1);
  llama_blocks(chain, job, rank, {});
  return built(std::move(graph), job.model);
}

ParamSpec llama_embedding(const Model& model) {
  return token_table("model.embed_tokens.weight", model);
}

void llama_after(Graph& graph, const config::Job& job, const Embedded& embedded,
                 const AfterBlock& after_block) {
  const Sizes sizes(job.model, graph.rank());
  Chain chain(graph, job.model, sizes, embedded);
  llama_blocks(chain, job, graph.rank(), after_block);
}

}  // namespace trireme::model
