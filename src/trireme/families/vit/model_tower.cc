#include "trireme/families/vit/model_tower.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/resolve/resolve_towers.h"

namespace trireme::model {
namespace {

using config::Pooling;
using config::Vision;

std::int64_t activation_bytes(const Graph& graph) {
  return static_cast<std::int64_t>(size_of(graph.rank().compute));
}

Cut dim_cut(int dim, std::vector<CutSegment> segments) {
  return {.dim = dim, .segments = std::move(segments)};
}

}  // namespace

std::vector<ParamSpec> patch_params(const Vision& vision, std::string_view prefix) {
  const std::int64_t d = vision.hidden;
  const PatchGrid grid = patch_grid(vision);
  const std::string p(prefix);
  std::vector<ParamSpec> params = {
      drawn(p + "patch_embed.proj.weight", {d, grid.features}, vision.init_std)};
  if (!vision.pre_norm) params.push_back(zeros(p + "patch_embed.proj.bias", d));
  if (vision.pooling == Pooling::kClass)
    params.push_back(drawn(p + "cls_token", {1, d}, vision.init_std));
  if (config::has_position_table(vision)) {
    const std::int64_t n = vision.position_grid;
    params.push_back(
        drawn(p + "pos_embed", {n > 0 ? n * n : tower(vision, 1).tokens, d}, vision.init_std));
  }
  if (vision.pre_norm) params = joined({std::move(params), norm_params(p + "norm_pre", d)});
  return params;
}

std::vector<ParamSpec> pool_params(const Vision& vision, std::string_view prefix) {
  const std::int64_t d = vision.hidden, ffn = vision.ffn;
  const std::string p(prefix), pool = p + "attn_pool.";
  std::vector<ParamSpec> norm = norm_params(p + "norm", d);
  if (vision.pooling != Pooling::kAttention) return norm;
  const double std = vision.init_std;
  const CutSegment heads{.granules = vision.heads, .size = d / vision.heads};
  const CutSegment columns{.granules = ffn};
  const Cut rows = dim_cut(0, {heads}), both = dim_cut(0, {heads, heads});
  return joined({std::move(norm),
                 {drawn(pool + "probe", {1, d}, std), drawn(pool + "q.weight", {d, d}, std, rows),
                  zeros(pool + "q.bias", d, rows), drawn(pool + "kv.weight", {2 * d, d}, std, both),
                  zeros(pool + "kv.bias", 2 * d, both),
                  drawn(pool + "proj.weight", {d, d}, std, dim_cut(1, {heads})),
                  zeros(pool + "proj.bias", d)},
                 norm_params(pool + "norm", d),
                 {drawn(pool + "mlp.fc1.weight", {ffn, d}, std, dim_cut(0, {columns})),
                  zeros(pool + "mlp.fc1.bias", ffn, dim_cut(0, {columns})),
                  drawn(pool + "mlp.fc2.weight", {d, ffn}, std, dim_cut(1, {columns})),
                  zeros(pool + "mlp.fc2.bias", d)}});
}

// Kept: what the norm reads and gives, keys and values, and of each sample what the MLP goes through.
Work pool_work(const Graph& graph, const Vision& vision) {
  const std::int64_t samples = graph.rank().micro_batch;
  const Encoder encoder = tower(vision, samples);
  const std::int64_t rows = encoder.rows(), d = vision.hidden, tp = graph.rank().tp;
  Work work{.saved_bytes = rows * d * activation_bytes(graph)};
  if (vision.pooling != Pooling::kAttention) return work;
  work = added(work, linear_work(graph, rows, 2 * d * d / tp, 2 * rows * d / tp));
  work = added(work, linear_work(graph, samples, (d * d + 2 * d * vision.ffn) / tp,
                                 samples * (3 * d + 2 * vision.ffn / tp)));
  work.flops += 4.0 * static_cast<double>(rows * d) / static_cast<double>(tp);  // scores, mixing
  return work;
}

// Keys and values open a region, the query another, the MLP a third; two close.
std::vector<plan::NodeExchange> pool_exchanges(const Graph& graph, const Vision& vision,
                                               bool reached) {
  if (graph.rank().tp == 1 || vision.pooling != Pooling::kAttention) return {};
  const auto all_reduce = [&](std::int64_t rows, int forward, int backward) {
    return plan::NodeExchange{.kind = plan::Exchange::kAllReduce,
                              .axes = mesh::Axis::kTp,
                              .bytes = rows * vision.hidden * activation_bytes(graph),
                              .forward = forward,
                              .backward = reached ? backward : 0};
  };
  const std::int64_t samples = graph.rank().micro_batch;
  return {all_reduce(1, 0, 1), all_reduce(samples, 2, 1),
          all_reduce(tower(vision, samples).rows(), 0, 1)};
}

plan::ValueId block_nodes(Graph& graph, const Encoder& encoder, std::int64_t layers,
                          plan::ValueId x, const TowerNames& names) {
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::string name = fmt::format("{}block.{}", names.nodes, layer);
    const plan::UnitId unit = graph.unit(
        {.name = name,
         .params = block_params(encoder, fmt::format("{}blocks.{}.", names.params, layer), layer)});
    x = block_node(graph, encoder, name, unit, x, {},
                   fmt::format("{}x.{}", names.nodes, layer + 1));
  }
  return x;
}

plan::ValueId tower_nodes(Graph& graph, const Vision& vision, plan::ValueId clips,
                          const TowerNames& names) {
  const std::int64_t samples = graph.rank().micro_batch;
  const Encoder encoder = tower(vision, samples);
  const PatchGrid grid = patch_grid(vision);
  const std::int64_t rows = samples * grid.tokens();
  const std::string name = names.nodes + "embed";
  const plan::UnitId unit =
      graph.unit({.name = name, .params = patch_params(vision, names.params)});
  Work work = linear_work(graph, rows, vision.hidden * grid.features,
                          rows * (grid.features + vision.pre_norm * vision.hidden));
  work.backward_flops = work.flops;  // pixels have no gradient
  const plan::ValueId x = graph.node({.name = name, .reads = {clips}}, work, {unit},
                                     {activation(graph, encoder, names.nodes + "x.0")})[0];
  return block_nodes(graph, encoder, vision.layers, x, names);
}

plan::Value features(const Graph& graph, std::string name, std::int64_t width) {
  const std::int64_t samples = graph.rank().micro_batch;
  return {.name = std::move(name),
          .bytes = samples * width * activation_bytes(graph),
          .shape = {samples, width},
          .whole = graph.rank().tp > 1};
}

Work added(Work a, const Work& b) {
  a.saved_bytes += b.saved_bytes;
  a.flops += b.flops;
  return a;
}

}  // namespace trireme::model
