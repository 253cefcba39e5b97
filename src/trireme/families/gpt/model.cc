#include "trireme/families/gpt/model.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "trireme/model/families/families.h"
#include "trireme/model/layers/decoder_params.h"

namespace trireme::model {
namespace {

using config::Model;

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
  return chain_spec(std::move(graph), model);
}

void gpt_after(Graph& graph, const Model& model, const Embedded& embedded) {
  const Sizes sizes(model, graph.rank());
  Chain chain(graph, model, sizes, embedded);
  gpt_blocks(chain, model, graph.rank(), true);
}

FamilyModel gpt_model() {
  return {.describe = [](const config::Job& job, const PerRank& rank,
                         const Training& training) { return gpt_spec(job.model, rank, training); },
          .loss = loss_of_tokens};
}

}  // namespace trireme::model
