#include "trireme/arch/probe.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "trireme/arch/clip_tower.h"
#include "trireme/arch/flops.h"
#include "trireme/arch/graph.h"

namespace trireme::arch {
namespace {

// The query's block, without an output projection, and the classifier. Every tp rank has all of them.
std::vector<ParamSpec> head_params(const config::Job& job) {
  const std::int64_t d = job.vision.hidden, ffn = 4 * d;
  const double std = job.vision.init_std;
  const double residual = std / std::sqrt(2.0 * static_cast<double>(job.probe.layers));
  const std::string block = "pooler.cross_attention_block.";
  return joined({{drawn("pooler.query_tokens", {1, 1, d}, std)},
                 norm_params(block + "norm1", d),
                 linear_params(block + "xattn.q", d, d, std),
                 linear_params(block + "xattn.kv", 2 * d, d, std),
                 norm_params(block + "norm2", d),
                 linear_params(block + "mlp.fc1", ffn, d, std),
                 linear_params(block + "mlp.fc2", d, ffn, residual),
                 linear_params("linear", job.vision.classes, d, std)});
}

}  // namespace

Encoder probe_encoder(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, samples);
  encoder.heads = job.probe.heads;
  encoder.ffn = 4 * job.vision.hidden;
  return encoder;
}

ModelSpec probe_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  Graph graph("probe", rank, training);
  const std::int64_t samples = rank.micro_batch, d = job.vision.hidden;
  const plan::ValueId clips = graph.input("clips", clip_bytes(job.vision, samples));
  const plan::ValueId labels = graph.input("labels", samples * 8);
  const Encoder encoder = probe_encoder(job, samples);
  plan::ValueId x = frozen_tower(graph, job, tower(job.vision, samples), clips);
  for (std::int64_t layer = 0; layer + 1 < job.probe.layers; ++layer) {
    const std::string name = fmt::format("block.{}", layer);
    const plan::UnitId unit = graph.unit(
        {.name = name,
         .params = block_params(encoder, fmt::format("pooler.blocks.{}.", layer), layer)});
    x = block_node(graph, encoder, name, unit, x, {}, fmt::format("x{}", layer + 1));
  }
  graph.node({.name = "head", .reads = {x, labels}, .loss = true},
             linear_work(graph, encoder.rows(), 2 * d * d, 4 * encoder.rows() * d),
             {graph.unit({.name = "head", .params = head_params(job)})},
             {{.name = "loss", .bytes = 8}});
  ModelSpec spec = std::move(graph).build();
  spec.metrics = {"accuracy"};
  spec.sample_tokens = encoder.tokens;
  set_flops_of_nodes(spec, rank);
  return spec;
}

}  // namespace trireme::arch
