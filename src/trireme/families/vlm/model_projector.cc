#include "trireme/families/vlm/model_projector.h"

#include <string>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/model/families/encoder.h"

namespace trireme::model {
namespace {

using config::ProjectorKind;
using Params = std::vector<ParamSpec>;

Params layer_of(const std::string& name, std::int64_t out, std::int64_t in, double std) {
  return linear_params(std::string(kProjectorPrefix) + name, out, in, std);
}

Params norm_of(const std::string& name, std::int64_t size) {
  return norm_params(std::string(kProjectorPrefix) + name, size);
}

ParamSpec weight_of(const std::string& name, std::int64_t out, std::int64_t in, double std) {
  return drawn(std::string(kProjectorPrefix) + name, {out, in}, std);
}

// After the queries, keys and values of an attention: its output and the next norm.
Params bert_output(const std::string& name, std::int64_t d, double std) {
  return joined({layer_of(name + ".proj", d, d, std), norm_of(name + ".norm", d)});
}

// Of rows of width d to rows of width `of`.
Params bert_cross(const std::string& name, std::int64_t d, std::int64_t of, double std) {
  return joined({layer_of(name + ".q", d, d, std), layer_of(name + ".kv", 2 * d, of, std),
                 bert_output(name, d, std)});
}

// To tokens of width d of rows that are `wide`; the norm is of `normed` numbers.
Params merger(std::int64_t d, std::int64_t wide, std::int64_t normed, double std) {
  return joined({norm_of("norm", normed), layer_of("linear_1", wide, wide, std),
                 layer_of("linear_2", d, wide, std)});
}

Params qformer(const config::Projector& form, std::int64_t features, double std) {
  const std::int64_t d = form.hidden;
  Params params = joined({{weight_of("queries", form.queries, d, std)}, norm_of("norm", d)});
  for (std::int64_t layer = 0; layer < form.layers; ++layer) {
    const std::string h = fmt::format("layers.{}.", layer);
    params = joined({std::move(params), layer_of(h + "self.qkv", 3 * d, d, std),
                     bert_output(h + "self", d, std),
                     layer % 2 == 0 ? bert_cross(h + "cross", d, features, std) : Params{},
                     layer_of(h + "mlp.fc1", 4 * d, d, std), layer_of(h + "mlp.fc2", d, 4 * d, std),
                     norm_of(h + "mlp.norm", d)});
  }
  return params;
}

Params perceiver(const config::Projector& form, double std) {
  const std::int64_t d = form.hidden, inner = form.heads * kResamplerHead;
  // As large as normed rows, so that equal inputs of all latents do not make them equal.
  Params params = {weight_of("latents", form.queries, d, 1)};
  for (std::int64_t layer = 0; layer < form.layers; ++layer) {
    const std::string h = fmt::format("layers.{}.", layer);
    params = joined(
        {std::move(params),
         norm_of(h + "norm_features", d),
         norm_of(h + "norm_latents", d),
         {weight_of(h + "q.weight", inner, d, std), weight_of(h + "kv.weight", 2 * inner, d, std),
          weight_of(h + "proj.weight", d, inner, std)},
         norm_of(h + "mlp.norm", d),
         {weight_of(h + "mlp.fc1.weight", 4 * d, d, std),
          weight_of(h + "mlp.fc2.weight", d, 4 * d, std)}});
  }
  return joined({std::move(params), norm_of("norm", d)});
}

// From queries to the decoder's width; blocks that attend to queries have layers of their own for that.
Params last_layer(const config::Job& job) {
  if (config::crosses(job)) return {};
  return layer_of("linear", job.model.hidden, job.projector.hidden, job.model.init_std);
}

std::int64_t weights_in(const Params& params) {
  std::int64_t sum = 0;
  for (const ParamSpec& param : params)
    if (param.shape.size() == 2) sum += param.numel();
  return sum;
}

}  // namespace

Params projector_params(const config::Job& job, bool deepstack) {
  const config::Projector& form = job.projector;
  const std::int64_t d = job.model.hidden, features = job.vision.hidden;
  const double std = job.model.init_std;
  switch (form.kind) {
    case ProjectorKind::kNone: return {};
    case ProjectorKind::kLinear: return layer_of("linear", d, features, std);
    case ProjectorKind::kMlp:
      return joined({layer_of("linear_1", d, features, std), layer_of("linear_2", d, d, std)});
    case ProjectorKind::kMerger:
      return merger(d, kMerged * features, deepstack ? kMerged * features : features, std);
    case ProjectorKind::kQFormer: return joined({qformer(form, features, std), last_layer(job)});
    case ProjectorKind::kPerceiver: return joined({perceiver(form, std), last_layer(job)});
  }
  TRIREME_CHECK(false, "projector {}", static_cast<int>(form.kind));
}

// Layers with queries are counted as if every weight met every feature and query of a tile: an upper bound.
Work projector_work(const Graph& graph, const config::Job& job, std::int64_t tiles,
                    std::int64_t features) {
  const config::Projector& form = job.projector;
  if (form.kind == ProjectorKind::kMerger) {
    // Kept: features, what the norm gives, what the first layer gives and GELU of it.
    const std::int64_t rows = tiles * features / kMerged;
    return linear_work(graph, rows, weights_in(projector_params(job)),
                       rows * 4 * kMerged * job.vision.hidden);
  }
  const bool queries =
      form.kind == ProjectorKind::kQFormer || form.kind == ProjectorKind::kPerceiver;
  const std::int64_t rows = tiles * (queries ? features + form.queries : features);
  const std::int64_t kept = queries ? form.layers * rows * (12 * form.hidden + 2 * features)
                                    : rows * (job.vision.hidden + 2 * job.model.hidden);
  return linear_work(graph, rows, weights_in(projector_params(job)), kept);
}

plan::Value projected_tokens(const Graph& graph, const config::Job& job, std::int64_t tiles,
                             std::string name) {
  const std::vector<std::int64_t> shape = {tiles, config::tile_tokens(job),
                                           config::projected_width(job)};
  return {.name = std::move(name),
          .bytes = shape[0] * shape[1] * shape[2] * Sizes(job.model, graph.rank()).element,
          .shape = shape,
          .whole = graph.rank().tp > 1,
          .varies = true};
}

}  // namespace trireme::model
