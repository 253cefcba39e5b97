#include "trireme/families/neox/model.h"

#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/model/families/decoders/chain.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/model/layers/layers.h"

namespace trireme::model {
namespace {

BlockLayers block(const config::Job& job, const PerRank& rank, std::int64_t layer) {
  LayerList list(job.model, rank, fmt::format("gpt_neox.layers.{}.", layer));
  const LayerList::Branch first = list.layer_norm("input_layernorm", 0);
  const std::vector<int> qkv =
      list.heads(first.normed, {"attention.query", "attention.key", "attention.value"},
                 LayerList::Bias::kHere);
  const int attended =
      list.attention_output("attention.dense", list.attention(qkv, {}), LayerList::Bias::kHere);
  const auto feed_forward = [&](int x) {
    return list.narrow("mlp.dense_4h_to_h", list.widen("mlp.dense_h_to_4h", x),
                       job.neox.activation);
  };
  constexpr const char* kSecond = "post_attention_layernorm";
  if (job.neox.parallel_residual) {
    const LayerList::Branch second = list.layer_norm(kSecond, first.stream);
    const int narrow = feed_forward(second.normed);
    list.add(list.add(second.stream, attended), narrow);
  } else {
    const LayerList::Branch second = list.layer_norm(kSecond, first.stream, attended);
    list.add(second.stream, feed_forward(second.normed));
  }
  return std::move(list).finish();
}

}  // namespace

ModelSpec neox_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  const config::Model& model = job.model;
  const Sizes sizes(model, rank);
  Graph graph("neox", rank, training);
  Chain chain(graph, model, sizes);
  chain.embed({token_table("gpt_neox.embed_in.weight", model)}, 0);
  for (std::int64_t layer = 0; layer < model.layers; ++layer) chain.block(block(job, rank, layer));
  const Cut& whole = Cuts(model, rank).whole;
  std::vector<ParamSpec> head = {gain("gpt_neox.final_layer_norm.weight", model.hidden, whole),
                                 bias("gpt_neox.final_layer_norm.bias", model.hidden, whole)};
  if (!model.tied) head.push_back(token_table("embed_out.weight", model));
  chain.head(std::move(head), 2);
  return chain_spec(std::move(graph), model);
}

FamilyModel neox_model() { return {.describe = neox_spec, .loss = loss_of_tokens}; }

}  // namespace trireme::model
