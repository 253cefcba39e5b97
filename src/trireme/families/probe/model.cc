#include "trireme/families/probe/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/families/jepa/model_tower.h"
#include "trireme/families/probe/keys_probes.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"

namespace trireme::model {
namespace {

// One of the probes: all its names begin with `prefix`, and its rate and decay are multiples of the job's.
struct OneProbe {
  std::string prefix;
  config::ProbeFactors factors{};
};

std::vector<OneProbe> all_probes(const config::Job& job) {
  std::vector<OneProbe> probes;
  for (const config::ProbeFactors& factors : config::probe_factors(job))
    probes.push_back({.prefix = fmt::format("probe.{}.", probes.size()), .factors = factors});
  if (probes.empty()) probes.emplace_back();
  return probes;
}

// A linear layer whose values are drawn from U(-1, 1) / sqrt(in), as PyTorch's linear layer draws its own.
std::vector<ParamSpec> classifier_params(const std::string& name, std::int64_t out,
                                         std::int64_t in) {
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  const Init init{.kind = Init::Kind::kUniform, .low = -bound, .high = bound};
  return {{.name = name + ".weight", .shape = {out, in}, .init = init},
          {.name = name + ".bias", .shape = {out}, .init = init}};
}

// The query's block, without an output projection, and the classifier. Every tp rank has all of them.
std::vector<ParamSpec> head_params(const config::Job& job, const std::string& prefix) {
  const std::int64_t d = job.vision.hidden, ffn = 4 * d;
  const double std = job.vision.init_std;
  const auto blocks = static_cast<double>(std::max<std::int64_t>(1, job.probe.layers - 1));
  const double residual = std / std::sqrt(2.0 * blocks);
  const std::string block = prefix + "pooler.cross_attention_block.";
  return joined({{drawn(prefix + "pooler.query_tokens", {1, 1, d}, std)},
                 norm_params(block + "norm1", d),
                 linear_params(block + "xattn.q", d, d, std),
                 linear_params(block + "xattn.kv", 2 * d, d, std),
                 norm_params(block + "norm2", d),
                 linear_params(block + "mlp.fc1", ffn, d, std),
                 linear_params(block + "mlp.fc2", d, ffn, residual),
                 classifier_params(prefix + "linear", job.vision.classes, d)});
}

// Its blocks and its loss, on the tower's tokens.
void probe_nodes(Graph& graph, const config::Job& job, const OneProbe& probe, plan::ValueId x,
                 plan::ValueId labels) {
  const std::int64_t d = job.vision.hidden;
  const Encoder encoder = probe_encoder(job, graph.rank().micro_batch);
  const auto unit = [&](const std::string& name, std::vector<ParamSpec> params) {
    // Biases and norms decay as well.
    for (ParamSpec& param : params) {
      param.lr = probe.factors.lr;
      param.decay = probe.factors.weight_decay;
    }
    return graph.unit({.name = name, .params = std::move(params)});
  };
  for (std::int64_t layer = 0; layer + 1 < job.probe.layers; ++layer) {
    const std::string name = fmt::format("{}block.{}", probe.prefix, layer);
    const std::string params = fmt::format("{}pooler.blocks.{}.", probe.prefix, layer);
    x = block_node(graph, encoder, name, unit(name, block_params(encoder, params, layer)), x, {},
                   fmt::format("{}x{}", probe.prefix, layer + 1));
  }
  const std::string head = probe.prefix + "head";
  // Attention of one query: keys or values once more, and scores.
  const auto row = activation(graph, encoder, "").bytes;
  const std::int64_t scores = 4 * encoder.rows() * job.probe.heads * 4;
  graph.node({.name = head,
              .reads = {x, labels},
              .loss = true,
              .work = {.forward = row + scores, .backward = row + scores}},
             linear_work(graph, encoder.rows(), 2 * d * d, 4 * encoder.rows() * d),
             {unit(head, head_params(job, probe.prefix))},
             {{.name = probe.prefix + "loss", .bytes = 8}});
}

}  // namespace

Encoder probe_encoder(const config::Job& job, std::int64_t samples) {
  Encoder encoder = tower(job.vision, samples);
  encoder.tokens *= job.probe.segments;
  encoder.heads = job.probe.heads;
  encoder.ffn = 4 * job.vision.hidden;
  // Tokens of a chunk are equal: the probe gets the place of each.
  if (!job.vision.chunked) encoder.positions = config::Positions::kLearned;
  return encoder;
}

ModelSpec probe_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  Graph graph("probe", rank, training);
  const std::int64_t samples = rank.micro_batch, segments = job.probe.segments;
  const plan::ValueId clips = graph.input("clips", clip_bytes(job.vision, samples * segments));
  const plan::ValueId labels = graph.input("labels", samples * 8);
  const Encoder encoder = probe_encoder(job, samples);
  const plan::ValueId x =
      frozen_tower(graph, job, tower(job.vision, samples * segments), clips, segments);
  for (const OneProbe& probe : all_probes(job)) probe_nodes(graph, job, probe, x, labels);
  ModelSpec spec = std::move(graph).build();
  spec.metrics = config::probe_metrics(job);
  spec.sample_tokens = encoder.tokens;
  return spec;
}

FamilyModel probe_model() {
  return {.describe = probe_spec, .loss = [](const config::Job& job) {
            const std::size_t probes = config::probe_metrics(job).size();
            LossLabel label = loss_of_classes(job);
            if (probes > 1) label.name = fmt::format("cross-entropy, sum of {} probes", probes);
            return label;
          }};
}

}  // namespace trireme::model
