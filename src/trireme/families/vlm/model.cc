#include "trireme/families/vlm/model.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/families/jepa/model_tower.h"
#include "trireme/families/llama/model.h"
#include "trireme/families/vit/model_tower.h"
#include "trireme/families/vlm/keys_checks.h"
#include "trireme/families/vlm/model_deepstack.h"
#include "trireme/families/vlm/model_gated_cross.h"
#include "trireme/families/vlm/model_projector.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/transients.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/families/families.h"
#include "trireme/model/graph.h"

namespace trireme::model {
namespace {

const TowerNames kTilesTower{.nodes = "vision.", .params = "vision_tower."};

Encoder tiles_tower(const config::Job& job) {
  Encoder encoder = tower(job.vision, expected_tiles(job));
  encoder.varies = true;
  return encoder;
}

// Results of the blocks that are read, [tiles, tokens, width].
plan::ValueId add_tower(Graph& graph, const config::Job& job, plan::ValueId tiles) {
  const config::Vision& vision = job.vision;
  const Encoder encoder = tiles_tower(job);
  const std::string name = kTilesTower.nodes + "embed";
  const plan::UnitId unit =
      graph.unit({.name = name, .params = patch_params(vision, kTilesTower.params)});
  const std::int64_t features = patch_grid(vision).features;
  Work work = linear_work(graph, encoder.rows(), vision.hidden * features,
                          encoder.rows() * (features + vision.pre_norm * vision.hidden));
  work.backward_flops = work.flops;  // pixels have no gradient
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
  const std::int64_t tiles = expected_tiles(job);
  return graph.node({.name = "projector", .reads = {x}},
                    projector_work(graph, job, tiles, tiles_tower(job).tokens), units,
                    {projected_tokens(graph, job, tiles, "visual_tokens")})[0];
}

// What the tower's blocks of vlm.deepstack write.
std::vector<plan::ValueId> deepstack_values(const Graph& graph, const config::Job& job) {
  const std::vector<plan::Value>& values = graph.spec().program.values;
  std::vector<plan::ValueId> found;
  for (const std::int64_t layer : config::deepstack_layers(job)) {
    const std::string name = fmt::format("{}x.{}", kTilesTower.nodes, layer + 1);
    const auto value = std::ranges::find(values, name, &plan::Value::name);
    TRIREME_CHECK(value != values.end(), "no value {}", name);
    found.push_back(static_cast<plan::ValueId>(value - values.begin()));
  }
  return found;
}

// Returns the input of the decoder's first block, and the unit of the table. If blocks attend to images, tokens include
// none of their rows.
Embedded add_splice(Graph& graph, const config::Job& job, plan::ValueId tokens,
                    plan::ValueId visual, plan::ValueId features) {
  const PerRank& rank = graph.rank();
  const Sizes sizes(job.model, rank);
  Embedded embedded{.unit = graph.unit({.name = "embed", .params = {llama_embedding(job.model)}})};
  std::vector<plan::ValueId> reads = {tokens};
  if (!config::crosses(job)) reads.insert(reads.end(), {visual, features});
  std::vector<plan::UnitId> units = {embedded.unit};
  if (config::ends_rows(job))
    units.push_back(graph.unit(
        {.name = "newline",
         .params = {drawn("model.image_newline", {1, job.model.hidden}, job.model.init_std)}}));
  embedded.x = graph.node({.name = "embed",
                           .reads = std::move(reads),
                           .looks_up = true,
                           .work = embed_transients(job.model, sizes, rank),
                           .exchanges = Exchanges(sizes, rank).embed()},
                          {}, units,
                          {{.name = "x0",
                            .bytes = sizes.rows * sizes.d * sizes.element,
                            .shape = {rank.micro_batch, job.model.seq_len, sizes.d},
                            .whole = rank.tp > 1}})[0];
  return embedded;
}

// For the most tiles of a micro-batch, with bytes where values wait in places that are laid out before.
void make_room(const config::Job& job, plan::Value& value) {
  const std::int64_t most = job.run.micro_batch * row_tiles(job);
  const Tier tier = job.offload.activations;
  if (tier == Tier::kHost || tier == Tier::kNvme) value.bytes = value.bytes / value.shape[0] * most;
  value.shape[0] = most;
}

}  // namespace

bool sees_clips(const config::Job& job) { return job.vlm.tower == config::VlmTower::kJepa; }

bool sees_tiles(const plan::Node& node) {
  return node.name.starts_with(kTilesTower.nodes) || node.name == "projector";
}

void check_kept_features(const config::Job& job, const plan::Program& program) {
  if (job.vlm.features.empty()) return;
  const plan::Node& first = program.nodes.front();
  const auto in_tower = [](const plan::Node& node) {
    return node.name.starts_with(kTilesTower.nodes);
  };
  for (const plan::Node& node : program.nodes)
    if (in_tower(node) && (node.stage != first.stage || node.chunk != first.chunk))
      fail(
          ErrorKind::kUsage,
          "vlm.features={}: {} is on another stage than {}, but the tower's features are assembled "
          "on its first stage; set parallel.stages with {} nodes or more in the first stage",
          job.vlm.features, node.name, first.name, std::ranges::count_if(program.nodes, in_tower));
}

std::int64_t row_tiles(const config::Job& job) {
  if (config::crosses(job)) return std::max<std::int64_t>(1, job.model.seq_len / 2);
  return std::max(1 + job.vlm.max_tiles, job.model.seq_len / config::tile_tokens(job));
}

std::int64_t expected_tiles(const config::Job& job) {
  if (sees_clips(job)) return job.run.micro_batch;
  if (!job.vlm.pack) return job.run.micro_batch * (1 + job.vlm.max_tiles);
  return job.run.micro_batch *
         std::max<std::int64_t>(1, job.model.seq_len / config::tile_tokens(job));
}

std::int64_t position_columns(const config::Job& job) {
  return (job.vlm.mrope.empty() ? 0 : 3) + (job.vlm.pack ? 1 : 0);
}

ModelSpec vlm_spec(const config::Job& job, const PerRank& rank, const Training& training) {
  Graph graph("vlm", rank, training);
  const std::int64_t tokens = rank.micro_batch * job.model.seq_len;
  const plan::ValueId text = graph.input("tokens", tokens * 8);
  const plan::ValueId targets = graph.input("targets", tokens * 8);
  const plan::ValueId visual = graph.input("visual", tokens * 8);
  const std::int64_t pixels = clip_bytes(job.vision, expected_tiles(job));
  const plan::ValueId seen = sees_clips(job) ? graph.input("clips", pixels)
                                             : graph.input("tiles", pixels / job.vision.frames);
  const std::int64_t columns = position_columns(job);
  const plan::ValueId positions =
      columns == 0 ? -1 : graph.input("positions", columns * tokens * 8);
  const plan::ValueId features =
      sees_clips(job) ? frozen_tower(graph, job, tower(job.vision, rank.micro_batch), seen)
                      : add_tower(graph, job, seen);
  const std::vector<plan::ValueId> deep =
      add_deepstack(graph, job, expected_tiles(job), deepstack_values(graph, job));
  const plan::ValueId x = add_projector(graph, job, features);
  Embedded embedded = add_splice(graph, job, text, visual, x);
  embedded.targets = targets;
  embedded.positions = positions;
  const auto crossed = [&](std::int64_t block, plan::ValueId read) {
    return config::crosses_before(job, block) ? add_cross(graph, job, block, read, visual, x)
                                              : read;
  };
  embedded.x = crossed(0, embedded.x);
  llama_after(graph, job, embedded, [&](std::size_t block, plan::ValueId written) {
    if (block < deep.size()) return add_seen(graph, job, block, written, visual, deep[block]);
    const auto next = static_cast<std::int64_t>(block) + 1;
    return next < job.model.layers ? crossed(next, written) : written;
  });
  ModelSpec spec = std::move(graph).build();
  spec.metrics = {"exact", "accuracy"};
  spec.sample_tokens = job.model.seq_len;
  if (!sees_clips(job))
    for (plan::Value& value : spec.program.values)
      if (value.varies) make_room(job, value);
  return spec;
}

FamilyModel vlm_model() { return {.describe = vlm_spec, .loss = loss_of_answers}; }

}  // namespace trireme::model
