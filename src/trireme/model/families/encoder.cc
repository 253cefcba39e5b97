#include "trireme/model/families/encoder.h"

#include <utility>

#include "trireme/config/head_width.h"
#include "trireme/model/account/work.h"
#include "trireme/model/layers/account.h"
#include "trireme/model/layers/layer_operations.h"

namespace trireme::model {
namespace {

// As far as work and exchanges go a block is a language model's.
config::Model as_model(const Encoder& encoder, std::int64_t layer = 0) {
  return {.layers = layer + 1,  // residual layers begin smaller by their number so far
          .hidden = encoder.hidden,
          .heads = encoder.heads,
          .kv_heads = encoder.heads,
          .ffn = encoder.ffn,
          .vocab = 1,
          .seq_len = encoder.tokens,
          .init_std = encoder.init_std};
}

PerRank as_rank(const Graph& graph, const Encoder& encoder, const std::string& node) {
  PerRank rank = graph.rank().of_rows();
  rank.micro_batch = encoder.sequences;
  rank.compute = graph.types().of(node);
  rank.sequence = false;
  rank.documents = encoder.packed;
  if (encoder.replicated) rank.tp = 1;
  return rank;
}

std::int64_t element(const Graph& graph) {
  return static_cast<std::int64_t>(size_of(graph.rank().compute));
}

// Parameters that are cut over tp, as every rank's own.
std::vector<ParamSpec> whole(std::vector<ParamSpec> params) {
  for (ParamSpec& param : params) param.cut = {};
  return params;
}

constexpr config::Activation kFused = config::Activation::kGeluTanh;  // with the layer after it

}  // namespace

Encoder tower(const config::Vision& vision, std::int64_t sequences) {
  return {.hidden = vision.hidden,
          .heads = vision.heads,
          .ffn = vision.ffn,
          .tokens = patch_grid(vision).tokens() + (vision.pooling == config::Pooling::kClass),
          .sequences = sequences,
          .positions = vision.positions,
          .activation = vision.activation,
          .init_std = vision.init_std};
}

PatchGrid patch_grid(const config::Vision& vision) {
  const std::int64_t side = vision.image / vision.patch;
  return {.frames = vision.frames / vision.tubelet,
          .rows = side,
          .columns = side,
          .features = 3 * vision.tubelet * vision.patch * vision.patch};
}

ParamSpec drawn(std::string name, std::vector<std::int64_t> shape, double std, Cut cut) {
  return {.name = std::move(name),
          .shape = std::move(shape),
          .init = {.kind = Init::Kind::kNormal, .std = std},
          .cut = std::move(cut)};
}

ParamSpec ones(std::string name, std::int64_t size) {
  return {
      .name = std::move(name), .shape = {size}, .init = {.kind = Init::Kind::kOnes}, .decay = 0};
}

ParamSpec zeros(std::string name, std::int64_t size, Cut cut) {
  return {.name = std::move(name), .shape = {size}, .decay = 0, .cut = std::move(cut)};
}

std::vector<ParamSpec> norm_params(const std::string& name, std::int64_t size) {
  return {ones(name + ".weight", size), zeros(name + ".bias", size)};
}

std::vector<ParamSpec> linear_params(const std::string& name, std::int64_t out, std::int64_t in,
                                     double std) {
  return {drawn(name + ".weight", {out, in}, std), zeros(name + ".bias", out)};
}

std::vector<ParamSpec> joined(std::vector<std::vector<ParamSpec>> lists) {
  std::vector<ParamSpec> all;
  for (std::vector<ParamSpec>& list : lists)
    for (ParamSpec& param : list) all.push_back(std::move(param));
  return all;
}

BlockLayers encoder_layers(const Encoder& encoder, const PerRank& rank, const std::string& prefix,
                           std::int64_t layer) {
  using Positions = config::Positions;
  const config::Model model = as_model(encoder, layer);
  LayerList list(model, rank, prefix);
  const LayerList::Branch first = list.layer_norm("norm1", 0);
  const int mixed = list.attention(list.heads(first.normed, "attn.qkv"),
                                   {.rotary = encoder.positions != Positions::kLearned});
  if (!encoder.causal) list.attend_to_all();
  if (encoder.positions != Positions::kLearnedRotary) list.turn_each_channel();
  if (encoder.key_bias) list.bias_keys();
  const int attended = list.attention_output("attn.proj", mixed, LayerList::Bias::kHere);
  const LayerList::Branch second = list.layer_norm("norm2", first.stream, attended);
  const int wide = list.widen("mlp.fc1", second.normed);
  const int narrow = encoder.activation == kFused
                         ? list.narrow("mlp.fc2", wide, kFused)
                         : list.narrow("mlp.fc2", list.activate(wide, encoder.activation));
  list.add(second.stream, narrow);
  BlockLayers block = std::move(list).finish();
  if (encoder.replicated) block.params = whole(std::move(block.params));
  return block;
}

std::vector<ParamSpec> block_params(const Encoder& encoder, const std::string& prefix,
                                    std::int64_t layer) {
  return encoder_layers(encoder, {}, prefix, layer).params;
}

plan::Value activation(const Graph& graph, const Encoder& encoder, std::string name) {
  const std::vector<std::int64_t> shape =
      encoder.packed ? std::vector{encoder.rows(), encoder.hidden}
                     : std::vector{encoder.sequences, encoder.tokens, encoder.hidden};
  return {.name = std::move(name),
          .bytes = encoder.rows() * encoder.hidden * element(graph),
          .shape = shape,
          .whole = graph.rank().tp > 1,
          .varies = encoder.packed || encoder.varies};
}

plan::ValueId block_node(Graph& graph, const Encoder& encoder, std::string name, plan::UnitId unit,
                         plan::ValueId x, const std::vector<plan::ValueId>& more,
                         std::string writes, bool teacher) {
  const config::Model model = as_model(encoder);
  const PerRank rank = as_rank(graph, encoder, name);
  const Sizes sizes(model, rank);
  BlockLayers block = encoder_layers(encoder, rank);
  const TrainedLayers trained{.gradients = {.input = !teacher && graph.reached(x),
                                            .own = graph.spec().program.units[unit].trainable}};
  LayersAccount account = account_of(block, trained, model, sizes, rank);
  // Sources of rows are there before and after the block, whose parts are not recomputed one by one.
  if (encoder.packed)
    account.transients.passing += document_saved(sizes, rank, 2 * config::head_width(model));
  account.work.parts.clear();
  account.work.split.reset();
  std::erase_if(account.exchanges, [](const plan::NodeExchange& one) { return !one.part.empty(); });
  std::vector<plan::ValueId> reads = {x};
  reads.insert(reads.end(), more.begin(), more.end());
  const plan::ValueId y =
      graph.node({.name = std::move(name),
                  .reads = std::move(reads),
                  .no_grad = teacher,
                  .work = account.transients,
                  .exchanges = std::move(account.exchanges)},
                 account.work, {unit}, {activation(graph, encoder, std::move(writes))})[0];
  graph.spec().layers.back() = std::move(block.layers);
  graph.computes(std::move(account.operations));
  graph.spread_rows();
  return y;
}

std::vector<Operation> block_operations(const Graph& graph, const Encoder& encoder,
                                        const std::string& node, bool trains) {
  const config::Model model = as_model(encoder);
  const PerRank rank = as_rank(graph, encoder, node);
  const BlockLayers block = encoder_layers(encoder, rank);
  const TrainedLayers trained{.gradients = {.own = trains}};
  return LayerOperations(block, trained, model, Sizes(model, rank), rank).operations();
}

Work linear_work(const Graph& graph, std::int64_t rows, std::int64_t weights, std::int64_t kept) {
  return {.saved_bytes = kept * element(graph),
          .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(weights)};
}

}  // namespace trireme::model
