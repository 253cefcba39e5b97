#include "trireme/families/llama/model.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/config/layer_attention.h"
#include "trireme/families/llama/keys_attention.h"
#include "trireme/model/families/families.h"
#include "trireme/model/layers/decoder_params.h"

namespace trireme::model {
namespace {

using config::Model;

BlockLayers llama_block(const config::Job& job, const PerRank& rank, std::size_t layer,
                        const config::LayerAttention& attends) {
  using Bias = LayerList::Bias;
  using Branch = LayerList::Branch;
  const Model& model = job.model;
  const config::Llama& own = job.llama;
  const bool before = own.norms != config::NormPlaces::kAfter;
  const bool after = own.norms != config::NormPlaces::kBefore;
  LayerList list(model, rank, fmt::format("model.layers.{}.", layer));
  const auto last = [](bool biased) { return biased ? Bias::kLast : Bias::kNone; };
  const auto norm = [&](const char* name, int x, std::optional<int> branch = {}) {
    return list.rms_norm(name, x, branch, own.gains_from_one);
  };
  const Branch first = before ? norm("input_layernorm", 0) : Branch{};
  const std::vector<int> qkv =
      list.heads(first.normed, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                 last(model.qkv_bias));
  HeadNorms heads{.whole = own.whole_qk_norm, .from_one = own.gains_from_one};
  if (model.qk_norm) heads.names = {"self_attn.q_norm", "self_attn.k_norm"};
  const int mixed =
      list.attention(qkv, attends, heads, config::score_factor(job), own.attention_cap);
  int attended = list.attention_output("self_attn.o_proj", mixed, last(own.output_bias),
                                       own.residual_multiplier);
  if (after) attended = norm("post_attention_layernorm", attended).normed;
  Branch second;
  if (before)
    second = norm(after ? "pre_feedforward_layernorm" : "post_attention_layernorm", first.stream,
                  attended);
  else
    second.stream = second.normed = list.add(first.stream, attended);
  const Bias fed_bias = last(own.feed_forward_bias);
  const std::vector<int> wide =
      list.widen_gated({"mlp.gate_proj", "mlp.up_proj"}, second.normed, fed_bias);
  int fed = list.narrow_gated("mlp.down_proj", wide, own.gate, own.residual_multiplier, fed_bias);
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
  chain.head(std::move(head), 1, job.llama.logits_cap > 0);
}

}  // namespace

ModelSpec llama_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  const Sizes sizes(job.model, rank);
  Graph graph("llama", rank, training);
  Chain chain(graph, job.model, sizes);
  chain.embed({llama_embedding(job.model)}, 0, job.llama.embedding_multiplier != 1);
  llama_blocks(chain, job, rank, {});
  return chain_spec(std::move(graph), job.model);
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

FamilyModel llama_model() { return {.describe = llama_spec, .loss = loss_of_tokens}; }

}  // namespace trireme::model
