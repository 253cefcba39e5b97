#include "trireme/model/families/decoders/chain.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/answers.h"
#include "trireme/model/layers/account.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/plan/mesh/token_layout.h"

namespace trireme::model {

using config::Model;

namespace {

std::vector<Operation> head_operations(const Sizes& sizes, bool trains, bool capped) {
  const auto tokens = static_cast<double>(sizes.tokens), d = static_cast<double>(sizes.d);
  const auto vocab = static_cast<double>(sizes.vocab);
  return {{.what = Operation::What::kLogits,
           .rows = tokens,
           .in = d,
           .outs = {vocab},
           .trains = trains},
          {.what = Operation::What::kLoss,
           .rows = static_cast<double>(sizes.rows),
           .in = d,
           .outs = {vocab},
           .tokens = tokens,
           .capped = capped}};
}

}  // namespace

Chain::Chain(Graph& graph, const Model& model, const Sizes& sizes)
    : Chain(graph, model, sizes, {}, graph.input("tokens", sizes.tokens * 8)) {
  targets_ = graph_.input("targets", sizes.tokens * 8);
  if (rank_.documents) positions_ = graph_.input("positions", sizes.tokens * 8);
  if (rank_.answers) compared_ = preference_inputs(graph_, sizes_);
  if (rank_.balances())
    chunks_ = graph_.input("chunks", mesh::most_chunks(model.seq_len, rank_.cp) * 8);
}

Chain::Chain(Graph& graph, const Model& model, const Sizes& sizes, const Embedded& embedded,
             plan::ValueId tokens)
    : model_(model),
      sizes_(sizes),
      rank_(graph.rank()),
      training_(graph.training()),
      graph_(graph),
      tokens_(tokens),
      targets_(embedded.targets),
      positions_(embedded.positions),
      x_(embedded.x),
      embed_(embedded.unit) {}

void Chain::embed(std::vector<ParamSpec> params, std::int64_t saved_bytes, bool scaled) {
  const bool has_positions = params.size() > 1;
  node({.name = "embed",
        .reads = with_positions(tokens_),
        .looks_up = true,
        .work = converting("embed", embed_transients(model_, sizes_of("embed"), typed("embed"),
                                                     has_positions, scaled)),
        .exchanges = exchanges("embed").embed()},
       {.saved_bytes = saved_bytes}, std::move(params), activation());
  const Sizes sizes = sizes_of("embed");
  graph_.computes({{.what = Operation::What::kLookUp,
                    .rows = static_cast<double>(sizes.rows),
                    .in = static_cast<double>(sizes.d),
                    .outs = {static_cast<double>(sizes.vocab)},
                    .trains = training_.trains("embed")}});
}

void Chain::block(BlockLayers block) {
  const std::string name = fmt::format("block.{}", blocks_);
  TrainedLayers trained{.gradients = {.input = graph_.reached(x_), .own = training_.trains(name)},
                        .adapted = training_.adapted_attention(block.attention),
                        .adapter_rank = training_.adapter_rank(),
                        .dropout = training_.dropout(),
                        .dora = training_.dora()};
  const std::vector<int> mlp = training_.adapted_mlp(block.mlp);
  trained.adapted.insert(trained.adapted.end(), mlp.begin(), mlp.end());
  ++blocks_;
  const PerRank rank = typed(name).of_rows();
  const Sizes sizes(model_, rank);
  LayersAccount account = account_of(block, trained, model_, sizes, rank);
  node({.name = name,
        .reads = with_positions(x_),
        .work = converting(name, account.transients),
        .exchanges = std::move(account.exchanges)},
       std::move(account.work), block.params, activation());
  graph_.spec().layers.back() = std::move(block.layers);
  graph_.computes(std::move(account.operations));
  graph_.spread_rows();
  adapt(block.params, std::move(trained.adapted));
}

void Chain::adapt(const std::vector<ParamSpec>& params, std::vector<int> weights) {
  std::vector<ParamSpec> adapters;
  for (const int weight : weights)
    for (ParamSpec& param : training_.adapter_params(params[weight], Cuts(model_, rank_).whole))
      adapters.push_back(std::move(param));
  graph_.adapt(std::move(weights),
               {.name = fmt::format("block.{}.lora", blocks_ - 1), .params = std::move(adapters)});
}

void Chain::head(std::vector<ParamSpec> params, std::int64_t statistics, bool capped) {
  const bool own = training_.trains("head");
  const TrainedHead head{.statistics = statistics,
                         .gradients = {.input = graph_.reached(x_), .own = own},
                         .weight = model_.tied ? training_.trains("embed") : own};
  node({.name = "head",
        .reads = {x_, targets_},
        .loss = !rank_.answers,
        .work = converting("head", head_transients(model_, sizes_of("head"), typed("head"), head)),
        .exchanges = exchanges("head").head(head)},
       head_work(model_, sizes_of("head"), rank_, head), std::move(params),
       rank_.answers ? token_losses(sizes_, rank_)
                     : plan::Value{.name = "loss", .bytes = sizes_.statistic});
  if (model_.tied) graph_.bind({.unit = embed_, .param = 0});
  graph_.computes(head_operations(sizes_of("head"), head.weight, capped));
  if (!rank_.answers) return;
  add_preference_loss(graph_, sizes_, x_, compared_);
  graph_.computes(
      {{.what = Operation::What::kComparison, .rows = static_cast<double>(sizes_.tokens)}});
}

std::vector<plan::ValueId> Chain::with_positions(plan::ValueId value) const {
  if (chunks_ >= 0) return {value, positions_, chunks_};
  return positions_ < 0 ? std::vector{value} : std::vector{value, positions_};
}

PerRank Chain::typed(const std::string& node) const {
  PerRank rank = rank_;
  rank.compute = graph_.types().of(node);
  return rank;
}

plan::NodeWork Chain::converting(const std::string& node, plan::NodeWork work) const {
  if (graph_.types().of(node) == rank_.compute) return work;
  const Sizes sizes = sizes_of(node);
  const std::int64_t own = sizes.rows * sizes.d * sizes.element;
  for (std::int64_t* bytes : {&work.forward, &work.passing, &work.backward, &work.input})
    *bytes += own;
  return work;
}

std::int64_t Chain::converted_bytes(const plan::Node& node) const {
  if (node.reads[0] != x_ || graph_.types().of(node.name) == rank_.compute) return 0;
  if (!graph_.reached(x_) && !training_.trains(node.name)) return 0;
  return sizes_.rows * sizes_.d * sizes_of(node.name).element;
}

plan::Value Chain::activation() const {
  const std::vector<std::int64_t> shape =
      rank_.sequence ? std::vector{std::int64_t{1}, sizes_.rows, sizes_.d}
                     : std::vector{rank_.micro_batch, sizes_.tokens / rank_.micro_batch, sizes_.d};
  return {.name = fmt::format("x{}", blocks_),
          .bytes = sizes_.rows * sizes_.d * sizes_.element,
          .shape = shape,
          .whole = rank_.tp > 1 && !rank_.sequence};
}

void Chain::node(plan::Node node, Work work, std::vector<ParamSpec> params, plan::Value writes) {
  work.saved_bytes += converted_bytes(node);
  const plan::UnitId unit = graph_.unit({.name = node.name, .params = std::move(params)});
  if (embed_ < 0) embed_ = unit;
  x_ = graph_.node(std::move(node), work, {unit}, {std::move(writes)})[0];
}

ModelSpec chain_spec(Graph graph, const config::Model& model) {
  ModelSpec spec = std::move(graph).build();
  spec.sample_tokens = model.seq_len;
  return spec;
}

}  // namespace trireme::model
