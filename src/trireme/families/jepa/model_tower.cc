#include "trireme/families/jepa/model_tower.h"

#include <fmt/format.h>

#include <utility>

#include "trireme/families/hvjepa/model_tower.h"

namespace trireme::model {

std::vector<ParamSpec> video_embed_params(const config::Vision& vision, const std::string& prefix) {
  const std::string name = prefix + "patch_embed.proj";
  return {drawn(name + ".weight", {vision.hidden, 3, vision.tubelet, vision.patch, vision.patch},
                vision.init_std),
          zeros(name + ".bias", vision.hidden)};
}

Work video_embed_work(const Graph& graph, const config::Vision& vision, std::int64_t rows) {
  const std::int64_t features = patch_grid(vision).features;
  return linear_work(graph, rows, features * vision.hidden, rows * features);
}

plan::NodeWork video_embed_transients(const Graph& graph, const config::Vision& vision,
                                      std::int64_t samples, bool apart) {
  const std::int64_t pixels = clip_bytes(vision, samples);
  const std::int64_t patches = apart ? vision.tubelet * pixels : pixels;
  const auto element = static_cast<std::int64_t>(size_of(graph.rank().compute));
  const std::int64_t typed = graph.rank().compute == DType::kF32 ? 0 : patches / 4 * element;
  const std::int64_t bytes = (apart ? pixels : 0) + patches + typed;
  return {.forward = bytes, .passing = bytes};
}

std::int64_t clip_bytes(const config::Vision& vision, std::int64_t samples) {
  constexpr std::int64_t kPixel = 3 * 4;
  return samples * vision.frames * vision.image * vision.image * kPixel;
}

Work norm_work(const Graph& graph, const Encoder& encoder) {
  return linear_work(graph, encoder.rows(), 4 * encoder.hidden, 2 * encoder.rows());
}

plan::NodeWork norm_transients(const Graph& graph, const Encoder& encoder) {
  return {.passing = activation(graph, encoder, "").bytes};
}

plan::ValueId frozen_tower(Graph& graph, const config::Job& job, const Encoder& encoder,
                           plan::ValueId clips, std::int64_t segments) {
  const config::Vision& vision = job.vision;
  if (vision.chunked) return chunked_tower(graph, job, encoder, clips);
  Encoder joined = encoder;
  joined.sequences /= segments;
  joined.tokens *= segments;
  const std::string prefix = kTeacher;
  const auto unit = [&](const std::string& name, std::vector<ParamSpec> params) {
    return graph.unit({.name = name, .params = std::move(params)}, false);
  };
  const bool apart = job.model.family == config::Family::kJepaAc;
  plan::ValueId x = graph.node(
      {.name = "tower.embed",
       .reads = {clips},
       .no_grad = true,
       .work = video_embed_transients(graph, vision, segments * graph.rank().micro_batch, apart)},
      video_embed_work(graph, vision, encoder.rows()),
      {unit("tower.embed", video_embed_params(vision, prefix))},
      {activation(graph, encoder, "tower.x0")})[0];
  for (std::int64_t layer = 0; layer < vision.layers; ++layer) {
    const std::string name = fmt::format("tower.block.{}", layer);
    const plan::UnitId block =
        unit(name, block_params(encoder, fmt::format("{}blocks.{}.", prefix, layer), layer));
    x = block_node(graph, encoder, name, block, x, {}, fmt::format("tower.x{}", layer + 1), true);
  }
  return graph.node({.name = "tower.norm",
                     .reads = {x},
                     .no_grad = true,
                     .work = norm_transients(graph, encoder)},
                    norm_work(graph, encoder),
                    {unit("tower.norm", norm_params(prefix + "norm", vision.hidden))},
                    {activation(graph, joined, "features")})[0];
}

}  // namespace trireme::model
