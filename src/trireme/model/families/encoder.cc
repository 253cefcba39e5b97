#include "trireme/model/families/encoder.h"

#include <cmath>
#include <utility>

#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/account/work.h"

namespace trireme::model {
namespace {

// As far as work and exchanges go a block is a language model's.
config::Model as_model(const Encoder& encoder) {
  return {.layers = 1,
          .hidden = encoder.hidden,
          .heads = encoder.heads,
          .kv_heads = encoder.heads,
          .ffn = encoder.ffn,
          .vocab = 1,
          .seq_len = encoder.tokens};
}

PerRank as_rank(const Graph& graph, const Encoder& encoder, const std::string& node) {
  PerRank rank = graph.rank().of_rows();
  rank.micro_batch = encoder.sequences;
  rank.compute = graph.types().of(node);
  rank.sequence = false;
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

Cut rows_cut(std::vector<CutSegment> segments) {
  return {.dim = 0, .segments = std::move(segments)};
}

Cut columns_cut(CutSegment segment) { return {.dim = 1, .segments = {segment}}; }

constexpr double kNormFlops = 8;  // mean, variance, scale and shift

// Numbers that an activation and the next layer keep of a feature: input and result of the activation, and for x
// sigmoid(1.702 x) also the sigmoid. An activation with an op of its own keeps the input alone.
std::int64_t kept_a_feature(config::Activation activation) {
  switch (activation) {
    case config::Activation::kGelu: return 2;
    case config::Activation::kGeluTanh: return 1;
    case config::Activation::kQuickGelu: return 3;
  }
  return 0;
}

}  // namespace

Encoder tower(const config::Vision& vision, std::int64_t sequences) {
  return {.hidden = vision.hidden,
          .heads = vision.heads,
          .ffn = vision.ffn,
          .tokens = patch_grid(vision).tokens() + (vision.pooling == config::Pooling::kClass),
          .sequences = sequences,
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

std::vector<ParamSpec> block_params(const Encoder& encoder, const std::string& prefix,
                                    std::int64_t layer) {
  const std::int64_t d = encoder.hidden, ffn = encoder.ffn;
  const double residual = encoder.init_std / std::sqrt(2.0 * static_cast<double>(layer + 1));
  const CutSegment heads{.granules = encoder.heads, .size = d / encoder.heads};
  const CutSegment features{.granules = ffn};
  const Cut qkv = rows_cut({heads, heads, heads});
  std::vector<ParamSpec> params =
      joined({norm_params(prefix + "norm1", d),
              {drawn(prefix + "attn.qkv.weight", {3 * d, d}, encoder.init_std, qkv),
               zeros(prefix + "attn.qkv.bias", 3 * d, qkv),
               drawn(prefix + "attn.proj.weight", {d, d}, residual, columns_cut(heads)),
               zeros(prefix + "attn.proj.bias", d)},
              norm_params(prefix + "norm2", d),
              {drawn(prefix + "mlp.fc1.weight", {ffn, d}, encoder.init_std, rows_cut({features})),
               zeros(prefix + "mlp.fc1.bias", ffn, rows_cut({features})),
               drawn(prefix + "mlp.fc2.weight", {d, ffn}, residual, columns_cut(features)),
               zeros(prefix + "mlp.fc2.bias", d)}});
  return encoder.replicated ? whole(std::move(params)) : params;
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
  const std::vector<ParamSpec>& params = graph.spec().units[unit].params;
  const bool trains = graph.spec().program.units[unit].trainable;
  TrainedBlock block{.statistics = 2,
                     .norm_flops = kNormFlops,
                     .inner = kept_a_feature(encoder.activation) * sizes.ffn,
                     .gates = encoder.activation == config::Activation::kQuickGelu,
                     .sums = 4,
                     .gradients = {.input = !teacher && graph.reached(x), .own = trains},
                     .causal = encoder.causal};
  block.qkv = layers_of(params, {2}, 0, rank, 0);
  block.out = layers_of(params, {4}, 1, rank, 0);
  block.up = layers_of(params, {8}, 0, rank, 0);
  block.down = layers_of(params, {10}, 1, rank, 0);
  std::vector<plan::ValueId> reads = {x};
  reads.insert(reads.end(), more.begin(), more.end());
  // Its parts are not recomputed one by one.
  Work work = block_work(model, sizes, rank, block);
  plan::NodeWork transients = block_transients(model, sizes, rank, block);
  // A language model's block adds the feed-forward's result where the stream is; here the sum is a tensor of its own.
  transients.passing += sizes.rows * sizes.d * sizes.element;
  if (encoder.packed) {
    // Cosines and sines of every row's place, which backward reads.
    const std::int64_t tables = 2 * sizes.rows * (encoder.hidden / encoder.heads) * sizes.statistic;
    transients.passing += tables;
    if (block.reached()) work.saved_bytes += tables;
  }
  work.parts.clear();
  work.split.reset();
  std::vector<plan::NodeExchange> exchanges = Exchanges(sizes, rank).block(block);
  std::erase_if(exchanges, [](const plan::NodeExchange& one) { return !one.part.empty(); });
  const plan::ValueId y =
      graph.node({.name = std::move(name),
                  .reads = std::move(reads),
                  .no_grad = teacher,
                  .work = transients,
                  .exchanges = std::move(exchanges)},
                 work, {unit}, {activation(graph, encoder, std::move(writes))})[0];
  graph.spread_rows();
  return y;
}

Work linear_work(const Graph& graph, std::int64_t rows, std::int64_t weights, std::int64_t kept) {
  return {.saved_bytes = kept * element(graph),
          .flops = 2.0 * static_cast<double>(rows) * static_cast<double>(weights)};
}

}  // namespace trireme::model
