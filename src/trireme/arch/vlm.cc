#include "trireme/arch/vlm.h"

#include <utility>
#include <vector>

#include "trireme/arch/clip_tower.h"
#include "trireme/arch/encoder.h"
#include "trireme/arch/exchanges.h"
#include "trireme/arch/flops.h"
#include "trireme/arch/graph.h"
#include "trireme/arch/language_model.h"
#include "trireme/arch/projector.h"
#include "trireme/arch/tower.h"
#include "trireme/arch/transients.h"
#include "trireme/config/resolve_vlm.h"

namespace trireme::arch {
namespace {

const TowerNames kTilesTower{.nodes = "vision.", .params = "vision_tower."};

Encoder tiles_tower(const config::Job& job) {
  Encoder encoder = tower(job.vision, most_tiles(job));
  encoder.varies = true;
  return encoder;
}

// What the blocks that are read write, [tiles, tokens, width].
plan::ValueId add_tower(Graph& graph, const config::Job& job, plan::ValueId tiles) {
  const config::Vision& vision = job.vision;
  const Encoder encoder = tiles_tower(job);
  const std::string name = kTilesTower.nodes + "embed";
  const plan::UnitId unit =
      graph.unit({.name = name, .params = patch_params(vision, kTilesTower.params)});
  const std::int64_t features = patch_grid(vision).features;
  Work work = linear_work(graph, encoder.rows(), vision.hidden * features,
                          encoder.rows() * (features + vision.pre_norm * vision.hidden));
  work.backward_flops = work.flops;  // no gradient goes back to pixels
  const plan::ValueId x = graph.node({.name = name, .reads = {tiles}}, work, {unit},
                                     {activation(graph, encoder, kTilesTower.nodes + "x.0")})[0];
  return block_nodes(graph, encoder, config::blocks_read(job), x, kTilesTower);
}

// [tiles, tile_tokens, hidden].
plan::ValueId add_projector(Graph& graph, const config::Job& job, plan::ValueId x) {
  std::vector<plan::UnitId> units;
  if (config::reads_last(job))
    units.push_back(
        graph.unit({.name = "vision.norm",
                    .params = norm_params(kTilesTower.params + "norm", job.vision.hidden)}));
  units.push_back(graph.unit({.name = "projector", .params = projector_params(job)}));
  const std::int64_t tiles = most_tiles(job);
  const std::vector<std::int64_t> shape = {tiles, config::tile_tokens(job), job.model.hidden};
  return graph.node(
      {.name = "projector", .reads = {x}},
      projector_work(graph, job, tiles, tiles_tower(job).tokens), units,
      {{.name = "visual_tokens",
        .bytes = shape[0] * shape[1] * shape[2] * Sizes(job.model, graph.rank()).element,
        .shape = shape,
        .whole = graph.rank().tp > 1,
        .varies = true}})[0];
}

// Returns what the decoder's first block reads, and the unit of the table.
Embedded add_splice(Graph& graph, const config::Job& job, plan::ValueId tokens,
                    plan::ValueId visual, plan::ValueId features) {
  const PerRank& rank = graph.rank();
  const Sizes sizes(job.model, rank);
  Embedded embedded{.unit = graph.unit({.name = "embed", .params = {llama_embedding(job.model)}})};
  std::vector<plan::UnitId> units = {embedded.unit};
  if (config::ends_rows(job))
    units.push_back(graph.unit(
        {.name = "newline",
         .params = {drawn("model.image_newline", {1, job.model.hidden}, job.model.init_std)}}));
  embedded.x = graph.node({.name = "embed",
                           .reads = {tokens, visual, features},
                           .work = embed_transients(job.model, sizes, rank),
                           .exchanges = Exchanges(sizes, rank).embed()},
                          {}, units,
                          {{.name = "x0",
                            .bytes = sizes.rows * sizes.d * sizes.element,
                            .shape = {rank.micro_batch, job.model.seq_len, sizes.d},
                            .whole = rank.tp > 1}})[0];
  return embedded;
}

}  // namespace

bool sees_clips(const config::Job& job) { return job.vlm.tower == config::VlmTower::kJepa; }

std::int64_t most_tiles(const config::Job& job) {
  return job.run.micro_batch * (sees_clips(job) ? 1 : 1 + job.vlm.max_tiles);
}

ModelSpec vlm_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  Graph graph("vlm", rank, training);
  const std::int64_t tokens = rank.micro_batch * job.model.seq_len;
  const plan::ValueId text = graph.input("tokens", tokens * 8);
  const plan::ValueId targets = graph.input("targets", tokens * 8);
  const plan::ValueId visual = graph.input("visual", tokens * 8);
  const plan::ValueId seen =
      graph.input(sees_clips(job) ? "clips" : "tiles", clip_bytes(job.vision, most_tiles(job)));
  const plan::ValueId positions =
      job.vlm.mrope.empty() ? -1 : graph.input("positions", 3 * tokens * 8);
  const plan::ValueId x = add_projector(
      graph, job,
      sees_clips(job) ? frozen_tower(graph, job, tower(job.vision, rank.micro_batch), seen)
                      : add_tower(graph, job, seen));
  Embedded embedded = add_splice(graph, job, text, visual, x);
  embedded.targets = targets;
  embedded.positions = positions;
  llama_behind(graph, job.model, embedded, job.vlm.qk_norm);
  ModelSpec spec = std::move(graph).build();
  spec.metrics = {"exact", "accuracy"};
  spec.sample_tokens = job.model.seq_len;
  set_flops_of_nodes(spec, rank);
  return spec;
}

}  // namespace trireme::arch
