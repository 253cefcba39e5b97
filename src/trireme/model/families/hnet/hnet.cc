#include "trireme/model/families/hnet/hnet.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/account/work.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/families/hnet/hnet_params.h"
#include "trireme/model/graph.h"
#include "trireme/model/layers/account.h"

namespace trireme::model {
namespace {

using Kind = HnetNode::Kind;

bool attends(const HnetNode& node) { return node.letter == 't' || node.letter == 'T'; }
bool feeds(const HnetNode& node) { return node.letter == 'T' || node.letter == 'M'; }

void add_blocks(std::vector<HnetNode>& nodes, std::size_t stage, const std::string& letters,
                bool decoder) {
  for (std::size_t i = 0; i < letters.size(); ++i)
    nodes.push_back({.stage = stage, .letter = letters[i], .decoder = decoder, .index = i});
}

// Builds the nodes one after the other; `x_` is what the last one gave.
class Builder {
 public:
  Builder(const config::Job& job, const PerRank& rank, const Training& training)
      : job_(job),
        rank_(rank),
        stages_(config::hnet_stages(job.hnet)),
        params_(stages_, job.model.init_std),
        graph_("hnet", rank, training),
        bytes_(rank.micro_batch * job.model.seq_len),
        carried_(stages_.size()) {
    tokens_ = graph_.input("tokens", bytes_ * 8);
    targets_ = graph_.input("targets", bytes_ * 8);
    if (rank.documents) positions_ = graph_.input("positions", bytes_ * 8);
  }

  ModelSpec build() && {
    for (const HnetNode& node : hnet_nodes(stages_)) add(node);
    ModelSpec spec = std::move(graph_).build();
    spec.metrics = {"nats"};
    for (std::size_t s = 0; s + 1 < stages_.size(); ++s)
      spec.metrics.push_back(s == 0 ? "chunk_ratio" : fmt::format("chunk_ratio_{}", s));
    spec.sample_tokens = job_.model.seq_len;
    return spec;
  }

 private:
  // What goes around the stage inside.
  struct Carried {
    plan::ValueId starts = -1, skip = -1, p = -1, boundary = -1;
  };

  void add(const HnetNode& node) {
    switch (node.kind) {
      case Kind::kEmbed: return embed();
      case Kind::kBlock: return block(node);
      case Kind::kRoute: return route(node.stage);
      case Kind::kRatio: return ratio(node.stage);
      case Kind::kJoin: return join(node.stage);
      case Kind::kHead: return head();
    }
  }

  void embed() {
    std::vector<plan::ValueId> reads = {tokens_};
    if (positions_ >= 0) reads.push_back(positions_);
    const Sizes sizes = sizes_of(0, false);
    // Rows of the table in its own type.
    const std::int64_t narrow =
        statistic() == element() ? 0 : bytes_ * stages_[0].hidden * element();
    const std::vector<plan::ValueId> written =
        graph_.node({.name = "embed",
                     .reads = std::move(reads),
                     .looks_up = true,
                     .work = {.forward = narrow, .passing = narrow, .backward = narrow},
                     .exchanges = Exchanges(sizes, rank_).embed()},
                    {}, {unit("embed", params_.embed(job_.model.vocab))},
                    {stream("bytes", 0), flags("starts.0", 0)});
    x_ = written[0];
    carried_[0].starts = written[1];
  }

  void block(const HnetNode& node) {
    const std::size_t s = node.stage;
    const std::string name = fmt::format("s{}.{}.{}", s,
                                         node.decoder         ? "decoder"
                                         : stages_[s].inner() ? "main"
                                                              : "encoder",
                                         node.index);
    const PerRank rank = rank_of(node);
    BlockLayers block = params_.block(s, node.decoder, node.index, rank);
    const plan::UnitId id = unit(name, block.params);
    const TrainedLayers trained{.gradients = {.input = graph_.reached(x_),
                                              .own = graph_.spec().program.units[id].trainable}};
    LayersAccount account = memory_of(node, block, trained, rank);
    account.work.flops = likely_flops(node, block, trained, rank);
    x_ = graph_.node({.name = name,
                      .reads = {x_, carried_[s].starts},
                      .work = account.transients,
                      .exchanges = std::move(account.exchanges)},
                     account.work, {id}, {stream(name + ".x", s)})[0];
    graph_.spec().layers.back() = std::move(block.layers);
    graph_.computes(std::move(account.operations));
    if (attends(node)) graph_.spread_rows();
  }

  // Of the most rows.
  LayersAccount memory_of(const HnetNode& node, BlockLayers& block, const TrainedLayers& trained,
                          const PerRank& rank) const {
    const config::Model model = as_model(node.stage, false);
    PerRank packed = rank;
    packed.documents = true;
    const Sizes sizes(model, packed);
    block.mixer = mixer_memory(node);
    LayersAccount account = account_of(block, trained, model, sizes, packed);
    widen_stream(sizes, feeds(node), account.work, account.transients);
    // LibTorch's operators turn queries and keys. A feed-forward layer needs more than they do.
    if (node.letter == 't')
      for (std::int64_t* bytes : {&account.transients.forward, &account.transients.passing})
        *bytes += sizes.tokens * sizes.q * statistic() * 3 / 2;
    account.work.backward_flops.reset();
    account.work.parts.clear();  // none is recomputed by itself
    account.work.split.reset();
    std::erase_if(account.exchanges,
                  [](const plan::NodeExchange& one) { return !one.part.empty(); });
    return account;
  }

  double likely_flops(const HnetNode& node, BlockLayers block, const TrainedLayers& trained,
                      const PerRank& rank) const {
    config::Model model = as_model(node.stage, true);
    const Sizes sizes(model, rank);
    block.mixer.flops = mixer_flops(node, sizes.tokens);
    // Attention within a window has as many scores as one over fewer positions.
    model.seq_len = std::llround(scored_tokens(
        static_cast<double>(model.seq_len), static_cast<double>(stages_[node.stage].window + 1)));
    for (Layer& layer : block.layers) layer.attends.window = 0;
    return account_of(block, trained, model, sizes, rank).work.flops;
  }

  // Additional memory of a stream that is wider than the compute type: it is kept wide between a block's branches.
  // Backward has gradients of the stream and, in the compute type, of the branches.
  void widen_stream(const Sizes& sizes, bool feeds, Work& work, plan::NodeWork& transients) const {
    if (statistic() == element()) return;
    const std::int64_t numbers = sizes.rows * sizes.d, wider = numbers * (statistic() - element());
    if (feeds) {
      work.saved_bytes += work.saved_bytes > 0 ? wider : 0;
      transients.passing += wider;
    }
    transients.backward += numbers * statistic();
    transients.input += numbers * statistic();
  }

  // Numbers of the type of statistics, as numbers of the compute type.
  std::int64_t exact_numbers(std::int64_t numbers) const {
    return numbers * statistic() / static_cast<std::int64_t>(size_of(rank_.compute));
  }

  void route(std::size_t s) {
    const std::int64_t d = stages_[s].hidden;
    const std::string name = fmt::format("s{}.route", s);
    // Queries, keys and rows are of the type of statistics, and so are their gradients.
    const std::int64_t row = bytes_ * d * statistic();
    const std::vector<plan::ValueId> written = graph_.node(
        {.name = name,
         .reads = {x_, carried_[s].starts},
         .work = {.forward = row, .passing = row, .backward = 6 * row}},
        linear_work(graph_, likely_rows(s), 2 * d * d, exact_numbers(bytes_ * 5 * d)),
        {exact(unit(name, params_.route(s)))},
        {rows(fmt::format("skip.{}", s), d, s),
         rows(fmt::format("p.{}", s), exact_parts(rank_.compute), s),
         flags(fmt::format("boundary.{}", s), s), stream(fmt::format("chunks.{}", s), s + 1),
         flags(fmt::format("starts.{}", s + 1), s + 1)});
    graph_.computes(router_operations(s));
    Carried& carried = carried_[s];
    carried.skip = written[0];
    carried.p = written[1];
    carried.boundary = written[2];
    x_ = written[3];
    carried_[s + 1].starts = written[4];
  }

  void ratio(std::size_t s) {
    const Carried& carried = carried_[s];
    std::vector<plan::ValueId> reads = {carried.p, carried.boundary, carried.starts, targets_};
    if (s > 0) reads.push_back(carried_[0].starts);
    graph_.node({.name = fmt::format("s{}.ratio", s), .reads = std::move(reads), .loss = true}, {},
                {}, {{.name = fmt::format("ratio_loss.{}", s), .bytes = statistic()}});
  }

  void join(std::size_t s) {
    const Carried& carried = carried_[s];
    const std::int64_t d = stages_[s].hidden;
    const std::string name = fmt::format("s{}.join", s);
    x_ = graph_.node(
        {.name = name,
         .reads = {x_, carried_[s + 1].starts, carried.skip, carried.p, carried.boundary}},
        linear_work(graph_, likely_rows(s), d * d, exact_numbers(bytes_ * 4 * d)),
        {exact(unit(name, params_.join(s)))}, {stream(name + ".x", s)})[0];
  }

  void head() {
    const plan::UnitId id = unit("head", params_.head(job_.model.vocab));
    const bool own = graph_.spec().program.units[id].trainable;
    const TrainedHead trained{
        .statistics = 1, .gradients = {.input = graph_.reached(x_), .own = own}, .weight = own};
    const config::Model model = as_model(0, false);
    const Sizes sizes(model, rank_);
    Work work = head_work(model, sizes, rank_, trained);
    work.parts.clear();
    work.split.reset();
    graph_.node({.name = "head",
                 .reads = {x_, targets_},
                 .loss = true,
                 .work = head_transients(model, sizes, rank_, trained),
                 .exchanges = Exchanges(sizes, rank_).head(trained)},
                work, {id}, {{.name = "loss", .bytes = statistic()}});
  }

  // A scan has all rows of a sequence.
  PerRank rank_of(const HnetNode& node) const { return attends(node) ? rank_.of_rows() : rank_; }

  plan::UnitId unit(const std::string& name, std::vector<ParamSpec> params) {
    return graph_.unit({.name = name, .params = std::move(params)});
  }

  // Routers and what is added to their result compute in fp32 at least.
  plan::UnitId exact(plan::UnitId unit) {
    if (exact_parts(rank_.compute) > 1) graph_.spec().program.units[unit].type = DType::kF32;
    return unit;
  }

  plan::Value rows(std::string name, std::int64_t width, std::size_t s) const {
    return {.name = std::move(name),
            .bytes = bytes_ * width * element(),
            .shape = {bytes_, width},
            .whole = rank_.tp > 1,
            .varies = s > 0};
  }

  // The residual stream, which blocks add to: fp32 at least, as in the reference code.
  plan::Value stream(std::string name, std::size_t s) const {
    plan::Value value = rows(std::move(name), stages_[s].hidden, s);
    value.bytes = bytes_ * stages_[s].hidden * statistic();
    if (rank_.compute != DType::kF64) value.type = DType::kF32;
    return value;
  }

  plan::Value flags(std::string name, std::size_t s) const {
    return {.name = std::move(name),
            .bytes = bytes_ * element(),
            .differentiable = false,
            .shape = {bytes_},
            .varies = s > 0};
  }

  std::int64_t element() const { return static_cast<std::int64_t>(size_of(rank_.compute)); }
  std::int64_t statistic() const { return rank_.compute == DType::kF64 ? 8 : 4; }

  // Positions of a stage in a sample: as many as there may be, or as routers aim at.
  std::int64_t positions(std::size_t s, bool likely) const {
    double count = static_cast<double>(job_.model.seq_len);
    for (std::size_t outer = 0; likely && outer < s; ++outer) count /= stages_[outer].ratio;
    return std::max(std::int64_t{1}, static_cast<std::int64_t>(std::llround(count)));
  }
  std::int64_t likely_rows(std::size_t s) const { return rank_.micro_batch * positions(s, true); }

  config::Model as_model(std::size_t s, bool likely) const {
    config::Model model = params_.as_model(s, positions(s, likely));
    model.vocab = job_.model.vocab;
    return model;
  }
  Sizes sizes_of(std::size_t s, bool likely) const { return {as_model(s, likely), rank_}; }

  // What a Mamba-2 mixer's layers and scan compute.
  double mixer_flops(const HnetNode& node, std::int64_t rows) const {
    if (attends(node)) return 0;
    const std::int64_t d = stages_[node.stage].hidden;
    const Mamba mamba(d);
    const auto numbers = static_cast<double>(mamba.projected() * d + d * mamba.inner +
                                             2 * mamba.inner * Mamba::kState);
    return 2.0 * static_cast<double>(rows) * numbers / rank_.tp;
  }

  // Memory of a Mamba-2 mixer on a rank, in the type of statistics between its layers. Kept: the projection, rows of the
  // convolution for each tap, before and after SiLU, inner features between all operations, states of segments after the
  // first, and decays between positions of a segment, in fp64 too.
  Mixer mixer_memory(const HnetNode& node) const {
    if (attends(node)) return {};
    const std::int64_t heads = (Mamba(stages_[node.stage].hidden).heads + rank_.tp - 1) / rank_.tp;
    const std::int64_t inner = heads * Mamba::kWidth, convolved = inner + 2 * Mamba::kState;
    const std::int64_t projected = inner + convolved + heads;
    const std::int64_t length = positions(node.stage, false),
                       piece = std::min(length, Mamba::kPiece);
    const std::int64_t states = 3 * inner * (length - piece) / length;
    const std::int64_t wide = projected + (Mamba::kTaps + 2) * convolved + 4 * inner + states +
                              12 * heads + (heads + 1) * piece;
    const std::int64_t decays = heads * piece * (8 + (statistic() == 8 ? 0 : statistic())) + piece;
    const std::int64_t saved = bytes_ * (wide * statistic() + 2 * inner * element() + decays);
    return {.operations = mixer_operations(node.stage, heads, projected, saved),
            .saved_bytes = saved,
            .work_bytes = bytes_ * (projected + 5 * convolved) * statistic(),
            .gradient_bytes = 2 * bytes_ * inner * statistic()};
  }

  // Queries and keys; then rows are normed, compared, sorted and gathered in the type of statistics.
  std::vector<Operation> router_operations(std::size_t s) const {
    constexpr double kMoved = 32;  // numbers of a row's width
    const auto rows = static_cast<double>(bytes_), d = static_cast<double>(stages_[s].hidden);
    const Operation product{.what = Operation::What::kProduct,
                            .rows = rows,
                            .in = d,
                            .outs = {d},
                            .trains = graph_.training().trains(fmt::format("s{}.route", s))};
    return {product, product, {.what = Operation::What::kSmall, .rows = rows, .in = kMoved * d}};
  }

  // Two products around a scan, for which a row is as a query that sees as many keys as the state has numbers.
  std::vector<Operation> mixer_operations(std::size_t s, std::int64_t heads, std::int64_t projected,
                                          std::int64_t saved) const {
    using What = Operation::What;
    const auto rows = static_cast<double>(bytes_), d = static_cast<double>(stages_[s].hidden);
    const auto inner = static_cast<double>(heads * Mamba::kWidth);
    return {
        {.what = What::kProduct, .rows = rows, .in = d, .outs = {static_cast<double>(projected)}},
        {.what = What::kSmall,
         .rows = rows,
         .in = static_cast<double>(saved) / static_cast<double>(bytes_ * element())},
        {.what = What::kAttention,
         .rows = rows,
         .tokens = static_cast<double>(Mamba::kPiece),
         .keys = static_cast<double>(Mamba::kState),
         .heads = static_cast<double>(heads),
         .width = static_cast<double>(Mamba::kWidth)},
        {.what = What::kProduct, .rows = rows, .in = inner, .outs = {d}}};
  }

  const config::Job& job_;
  const PerRank& rank_;
  std::vector<config::HnetStage> stages_;
  HnetParams params_;
  Graph graph_;
  std::int64_t bytes_;  // of text in a micro-batch
  std::vector<Carried> carried_;
  plan::ValueId tokens_ = -1, targets_ = -1, positions_ = -1, x_ = -1;
};

}  // namespace

int exact_parts(DType compute) { return size_of(compute) < size_of(DType::kF32) ? 3 : 1; }

std::vector<HnetNode> hnet_nodes(const std::vector<config::HnetStage>& stages) {
  std::vector<HnetNode> nodes = {{.kind = Kind::kEmbed}};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    add_blocks(nodes, s, stages[s].encoder, false);
    if (stages[s].inner()) continue;
    nodes.push_back({.kind = Kind::kRoute, .stage = s});
    nodes.push_back({.kind = Kind::kRatio, .stage = s});
  }
  for (std::size_t s = stages.size() - 1; s-- > 0;) {
    nodes.push_back({.kind = Kind::kJoin, .stage = s});
    add_blocks(nodes, s, stages[s].decoder, true);
  }
  nodes.push_back({.kind = Kind::kHead});
  return nodes;
}

ModelSpec hnet_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  return Builder(job, rank, training).build();
}

}  // namespace trireme::model
