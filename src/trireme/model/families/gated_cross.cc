#include "trireme/model/families/gated_cross.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "trireme/config/resolve/resolve_vlm.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/families/vlm.h"

namespace trireme::model {
namespace {

std::int64_t rounded_share(std::int64_t count, int ranks) { return (count + ranks - 1) / ranks; }

// Of a micro-batch on one rank; bytes are in the compute type unless said.
struct CrossSizes {
  CrossSizes(const Graph& graph, const config::Job& job)
      : own(job.model, graph.rank()),
        samples(graph.rank().micro_batch),
        images(expected_tiles(job)),
        keys(images * config::tile_tokens(job)),
        width(config::projected_width(job)),
        heads(rounded_share(job.vlm.cross[1], graph.rank().tp)),
        inner(heads * kCrossHead),
        ffn(rounded_share(kCrossWider * own.d, graph.rank().tp)),
        row(own.rows * own.d * own.element),
        features(own.rows * ffn * own.element),
        queries(own.rows * inner * own.element),
        seen(keys * 2 * inner * own.element) {}

  double product(std::int64_t rows, std::int64_t in, std::int64_t out) const {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in * out);
  }
  // Of a row with all tokens of one image.
  double attention() const {
    return 4.0 * static_cast<double>(own.rows) * static_cast<double>(inner) *
           static_cast<double>(keys / images);
  }

  Sizes own;
  std::int64_t samples, images, keys, width, heads, inner, ffn;
  std::int64_t row;       // an activation
  std::int64_t features;  // of the feed-forward layer
  std::int64_t queries;   // or what attention gives
  std::int64_t seen;      // keys and values
};

// Kept: statistics of both norms, queries, keys, values, attention's result and log-sum-exps, visible ranges of rows,
// the stream between the branches and features before GELU. If it trains, also results of both norms, features after
// GELU and the inputs of both gates.
Work cross_work(const CrossSizes& s, bool trains, bool reached, bool rows_reached) {
  const double text = s.product(s.own.rows, s.own.d, 2 * s.inner + 2 * s.ffn),
               entering = s.product(s.own.rows, s.own.d, s.inner),
               images = s.product(s.keys, s.width, 2 * s.inner);
  Work work{.saved_bytes = (1 + 4 * trains) * s.row + (1 + trains) * s.features + 2 * s.queries +
                           s.seen + s.own.rows * ((s.heads + 4) * s.own.statistic + 16),
            .flops = text + images + s.attention()};
  work.backward_flops = trains * (text + images) + text - (reached || trains ? 0 : entering) +
                        rows_reached * images + 2 * s.attention();
  return work;
}

// Results of gates; in backward the gradient of the features, while the branch's kept data is freed.
plan::NodeWork cross_transients(const CrossSizes& s) {
  const std::int64_t attending = 3 * s.row + 2 * s.queries + s.seen,
                     feeding = 4 * s.row + 2 * s.features;
  return {.forward = 2 * s.row + s.own.added_product,
          .passing = std::max(attending, feeding) + s.own.added_product,
          .backward = s.features + s.own.added_product,
          .input = s.features + s.own.added_product};
}

// Two regions, whose rows are summed as they close and their gradients as they open; and the gradient of what is seen.
std::vector<plan::NodeExchange> cross_exchanges(const CrossSizes& s, const PerRank& rank,
                                                bool rows_reached) {
  if (rank.tp == 1) return {};
  std::vector<plan::NodeExchange> all = {{.kind = plan::Exchange::kAllReduce,
                                          .axes = mesh::Axis::kTp,
                                          .bytes = s.row,
                                          .forward = 2,
                                          .backward = 2}};
  if (rows_reached)
    all.push_back({.kind = plan::Exchange::kAllReduce,
                   .axes = mesh::Axis::kTp,
                   .bytes = s.keys * s.width * s.own.element,
                   .backward = 1});
  return all;
}

std::vector<Operation> cross_operations(const CrossSizes& s, bool trains) {
  using What = Operation::What;
  const auto number = [](std::int64_t count) { return static_cast<double>(count); };
  const auto product = [&](std::int64_t rows, std::int64_t in, std::int64_t out) {
    return Operation{.what = What::kProduct,
                     .rows = number(rows),
                     .in = number(in),
                     .outs = {number(out)},
                     .trains = trains};
  };
  const auto pass = [&](What what, std::int64_t width) {
    return Operation{.what = what, .rows = number(s.own.rows), .in = number(width)};
  };
  const Operation norm = pass(What::kLayerNorm, s.own.d), sum = pass(What::kSum, s.own.d);
  return {norm,
          product(s.own.rows, s.own.d, s.inner),
          product(s.keys, s.width, 2 * s.inner),
          {.what = What::kAttention,
           .rows = number(s.own.rows),
           .tokens = number(s.own.tokens / s.samples),
           .keys = number(s.keys / s.images),
           .heads = number(s.heads),
           .width = number(kCrossHead)},
          product(s.own.rows, s.inner, s.own.d),
          sum,
          norm,
          product(s.own.rows, s.own.d, s.ffn),
          pass(What::kActivation, s.ffn),
          product(s.own.rows, s.ffn, s.own.d),
          sum};
}

}  // namespace

std::vector<ParamSpec> cross_params(const config::Job& job, std::int64_t block) {
  const std::string prefix = fmt::format("gated_cross_attn_layers.{}.", block);
  const std::int64_t d = job.model.hidden, heads = job.vlm.cross[1], inner = heads * kCrossHead,
                     ffn = kCrossWider * d;
  const double std = job.model.init_std;
  const CutSegment head{.granules = heads, .size = kCrossHead}, feature{.granules = ffn};
  const auto layer = [&](const char* name, std::int64_t out, std::int64_t in, Cut cut) {
    return drawn(prefix + name, {out, in}, std, std::move(cut));
  };
  return joined({norm_params(prefix + "attn.norm", d),
                 {layer("attn.to_q.weight", inner, d, {.dim = 0, .segments = {head}}),
                  layer("attn.to_kv.weight", 2 * inner, config::projected_width(job),
                        {.dim = 0, .segments = {head, head}}),
                  layer("attn.to_out.weight", d, inner, {.dim = 1, .segments = {head}}),
                  zeros(prefix + "attn_gate", 1)},
                 norm_params(prefix + "ff.0", d),
                 {layer("ff.1.weight", ffn, d, {.dim = 0, .segments = {feature}}),
                  layer("ff.3.weight", d, ffn, {.dim = 1, .segments = {feature}}),
                  zeros(prefix + "ff_gate", 1)}});
}

plan::ValueId add_cross(Graph& graph, const config::Job& job, std::int64_t block, plan::ValueId x,
                        plan::ValueId visual, plan::ValueId rows) {
  const std::string name = fmt::format("cross.{}", block);
  plan::Value sum = graph.spec().program.values[x];
  sum.name = name + ".x";
  const plan::UnitId unit = graph.unit({.name = name, .params = cross_params(job, block)});
  const CrossSizes sizes(graph, job);
  const bool rows_reached = graph.reached(rows), trains = graph.training().trains(name);
  const plan::ValueId y = graph.node(
      {.name = name,
       .reads = {x, visual, rows},
       .work = cross_transients(sizes),
       .exchanges = cross_exchanges(sizes, graph.rank(), rows_reached)},
      cross_work(sizes, trains, graph.reached(x), rows_reached), {unit}, {std::move(sum)})[0];
  graph.computes(cross_operations(sizes, trains));
  return y;
}

}  // namespace trireme::model
