#include "trireme/model/families/hvjepa.h"

#include <algorithm>
#include <utility>

#include "trireme/config/resolve/resolve.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/model/families/hnet/hnet.h"
#include "trireme/model/families/jepa.h"
#include "trireme/plan/mesh/axis.h"

namespace trireme::model {
namespace {

// Linear, LayerNorm, ReLU, twice, and a linear layer without bias.
std::vector<ParamSpec> expander_params(const std::string& name, std::int64_t in, std::int64_t width,
                                       double std) {
  return joined({linear_params(name + ".fc1", width, in, std),
                 norm_params(name + ".norm1", width),
                 linear_params(name + ".fc2", width, width, std),
                 norm_params(name + ".norm2", width),
                 {drawn(name + ".fc3.weight", {width, width}, std)}});
}

// Matches of a clip, at most, by place and by feature.
struct MostMatches {
  explicit MostMatches(const config::Job& job) {
    const config::Vicreg& vicreg = job.vicreg;
    const std::int64_t tokens = patch_grid(job.vision).tokens();
    by_place = std::min(kMatchesByPlace, tokens);
    by_feature = vicreg.feature_matches == 0 ? tokens : std::min(vicreg.feature_matches, tokens);
  }
  std::int64_t by_place = 0;
  std::int64_t by_feature = 0;
};

std::int64_t batch_of_loss(const config::Job& job) {
  return config::samples_of_loss(job) * config::dp(job);
}

// Numbers that all clips of the global batch have for the loss: two views of each, and both sides of matches to and fro.
std::int64_t gathered(const config::Job& job) {
  const MostMatches most(job);
  return batch_of_loss(job) *
         (2 * job.vicreg.width + 4 * (most.by_place + most.by_feature) * job.vicreg.local_width);
}

std::int64_t statistics_bytes(const Graph& graph) {
  return graph.rank().compute == DType::kF64 ? 8 : 4;
}

// The covariances of a step, of which each data-parallel rank computes its share.
struct Covariances {
  double flops = 0;
  std::int64_t elements = 0;
};
Covariances covariances_of(const config::Job& job) {
  const std::int64_t batch = batch_of_loss(job), ranks = config::dp(job);
  Covariances sum;
  const auto add = [&](std::int64_t count, std::int64_t rows, std::int64_t width) {
    const std::int64_t side = std::min(rows, width), elements = count * side * side / ranks;
    sum.elements += elements;
    sum.flops += 2.0 * static_cast<double>(elements) * static_cast<double>(std::max(rows, width));
  };
  add(2, batch, job.vicreg.width);
  const MostMatches most(job);
  for (const std::int64_t matches : {most.by_place, most.by_feature})
    add(4 * matches, batch, job.vicreg.local_width);
  return sum;
}

}  // namespace

bool has_chunks(const config::Job& job) { return job.model.family == config::Family::kHvjepa; }

config::Vision chunk_vision(const config::Job& job) {
  config::Vision vision = job.vision;
  vision.hidden = job.chunk.hidden;
  vision.heads = job.chunk.heads;
  return vision;
}

Encoder chunk_encoder(const config::Job& job, const Encoder& tower) {
  Encoder encoder = tower;
  encoder.hidden = job.chunk.hidden;
  encoder.heads = job.chunk.heads;
  encoder.ffn = 4 * job.chunk.hidden;
  encoder.replicated = true;
  return encoder;
}

plan::ValueId neighbours_node(Graph& graph, const config::Job& job, const Encoder& tokens,
                              std::string name, plan::UnitId unit,
                              const std::vector<plan::ValueId>& reads, std::string writes,
                              bool teacher) {
  const std::int64_t d = tokens.hidden, rows = tokens.rows(), seen = kNeighbours + 1;
  Work work = linear_work(graph, rows, 12 * d * d, rows * d * (16 + 2 * seen));
  work.flops += 4.0 * static_cast<double>(rows * seen * d);
  const bool trains = graph.spec().program.units[unit].trainable;
  std::vector<Operation> operations = block_operations(graph, tokens, name, trains);
  for (Operation& one : operations)
    if (one.what == Operation::What::kAttention) one.keys = static_cast<double>(seen);
  // Keys and values of neighbours are gathered, and read.
  operations.push_back({.what = Operation::What::kSmall,
                        .rows = static_cast<double>(rows),
                        .in = static_cast<double>(4 * seen * d)});
  const plan::ValueId y =
      graph.node({.name = std::move(name), .reads = reads, .no_grad = teacher}, work, {unit},
                 {activation(graph, tokens, std::move(writes))})[0];
  graph.computes(std::move(operations));
  return y;
}

std::vector<ParamSpec> chunk_params(const config::Job& job, const std::string& prefix) {
  const std::int64_t d = job.chunk.hidden;
  const double std = job.vision.init_std;
  std::vector<ParamSpec> params =
      joined({norm_params(prefix + "norm", d), linear_params(prefix + "pool.query", d, d, std),
              linear_params(prefix + "pool.kv", 2 * d, d, std),
              linear_params(prefix + "proj", job.vision.hidden, d, std)});
  if (job.chunk.mode == config::ChunkMode::kFixed) return params;
  for (const char* name : {"router.query.weight", "router.key.weight"})
    params.push_back(
        {.name = prefix + name, .shape = {d, d}, .init = {.kind = Init::Kind::kIdentity}});
  return params;
}

Work chunk_work(const Graph& graph, const config::Job& job, const Encoder& encoder) {
  const std::int64_t d = job.chunk.hidden;
  return linear_work(graph, encoder.rows(), 5 * d * d + d * job.vision.hidden,
                     encoder.rows() * 16 * d);
}

plan::UnitId exact(Graph& graph, plan::UnitId unit) {
  if (exact_parts(graph.rank().compute) > 1) graph.spec().program.units[unit].type = DType::kF32;
  return unit;
}

std::int64_t place_columns(const PerRank& rank, bool teacher) {
  return 3 * exact_parts(rank.compute) + 2 + (teacher ? kMasks : 0);
}

plan::Value places(const Graph& graph, const Encoder& chunks, std::string name, bool teacher) {
  Encoder as_rows = chunks;
  as_rows.hidden = place_columns(graph.rank(), teacher);
  plan::Value value = activation(graph, as_rows, std::move(name));
  value.differentiable = false;
  return value;
}

std::vector<ParamSpec> vicreg_params(const config::Job& job) {
  const std::int64_t d = job.vision.hidden;
  const double std = job.vision.init_std;
  return joined({{drawn("vicreg.query", {1, d}, std)},
                 linear_params("vicreg.kv", 2 * d, d, std),
                 expander_params("vicreg.clips", d, job.vicreg.width, std),
                 expander_params("vicreg.chunks", d, job.vicreg.local_width, std)});
}

plan::Node vicreg_node(const Graph& graph, const config::Job& job) {
  plan::Node node{.name = "vicreg", .loss = true, .joint = config::caches_gradients(job)};
  if (config::dp(job) == 1) return node;
  const auto spread = [&](plan::Exchange kind, int forward, int backward) {
    return plan::NodeExchange{.kind = kind,
                              .axes = {mesh::Axis::kDpShard, mesh::Axis::kDpReplicate},
                              .bytes = gathered(job) * statistics_bytes(graph),
                              .forward = forward,
                              .backward = backward};
  };
  node.exchanges = {spread(plan::Exchange::kAllGather, 1, 0),
                    spread(plan::Exchange::kReduceScatter, 0, 1)};
  return node;
}

Work vicreg_work(const Graph& graph, const config::Job& job, const Encoder& chunks) {
  const std::int64_t d = chunks.hidden, width = job.vicreg.local_width;
  const std::int64_t rows = chunks.rows() * (config::samples_of_loss(job) / job.run.micro_batch);
  Work work = linear_work(graph, rows, 2 * d * d + d * width + 2 * width * width,
                          rows * (3 * d + 6 * width));
  const std::int64_t views = kMasks * config::samples_of_loss(job), wide = job.vicreg.width;
  const Work clips = linear_work(graph, views, d * wide + 2 * wide * wide, views * 6 * wide);
  const Covariances covariances = covariances_of(job);
  work.flops += clips.flops + covariances.flops;
  work.saved_bytes += clips.saved_bytes;
  // Of what is gathered also a copy whose columns have no mean; products, and their squares.
  work.saved_bytes += (2 * gathered(job) + 2 * covariances.elements) * statistics_bytes(graph);
  return work;
}

}  // namespace trireme::model
