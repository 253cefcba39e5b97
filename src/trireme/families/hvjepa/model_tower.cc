#include "trireme/families/hvjepa/model_tower.h"

#include <fmt/format.h>

#include <utility>

#include "trireme/families/hnet/model.h"
#include "trireme/families/hvjepa/model.h"
#include "trireme/families/jepa/model_tower.h"

namespace trireme::model {
namespace {

using plan::UnitId;
using plan::ValueId;

class ChunkedTower {
 public:
  ChunkedTower(Graph& graph, const config::Job& job, const Encoder& encoder)
      : graph_(graph), job_(job), dense_(encoder), chunks_(encoder) {
    chunks_.packed = chunks_.key_bias = true;
  }

  ValueId build(ValueId clips) && {
    const std::vector<ValueId> chunks = chunk(tokens(clips));
    ValueId x = chunks[0];
    for (std::int64_t layer = 0; layer < job_.vision.layers; ++layer) {
      const std::string name = fmt::format("tower.block.{}", layer);
      x = block_node(graph_, chunks_, name,
                     unit(name, block_params(chunks_, prefix("blocks", layer), layer)), x,
                     {chunks[1]}, fmt::format("tower.x{}", layer + 1), true);
    }
    x = node("tower.norm", {x}, norm_work(graph_, chunks_),
             {unit("tower.norm", norm_params(std::string(kTeacher) + "norm", job_.vision.hidden))},
             {activation(graph_, chunks_, "chunk_features")})[0];
    return read_out(x, {chunks.begin() + 2, chunks.end()});
  }

 private:
  static std::string prefix(const std::string& name, std::int64_t layer) {
    return fmt::format("{}{}.{}.", kTeacher, name, layer);
  }

  UnitId unit(std::string name, std::vector<ParamSpec> params) {
    return graph_.unit({.name = std::move(name), .params = std::move(params)}, false);
  }

  std::vector<ValueId> node(std::string name, std::vector<ValueId> reads, const Work& work,
                            const std::vector<UnitId>& units, std::vector<plan::Value> writes) {
    return graph_.node({.name = std::move(name), .reads = std::move(reads), .no_grad = true}, work,
                       units, std::move(writes));
  }

  // Of clips, as they are before they become chunks.
  ValueId tokens(ValueId clips) {
    const Encoder rows = chunk_encoder(job_, chunks_);
    const config::Vision vision = chunk_vision(job_);
    ValueId x = node("tower.embed", {clips}, video_embed_work(graph_, vision, rows.rows()),
                     {unit("tower.embed", video_embed_params(vision, kTeacher))},
                     {activation(graph_, chunk_encoder(job_, dense_), "tower.tokens0")})[0];
    for (std::int64_t layer = 0; layer < job_.chunk.layers; ++layer) {
      const std::string name = fmt::format("tower.chunk.block.{}", layer);
      x = neighbours_node(graph_, job_, rows, name,
                          unit(name, block_params(rows, prefix("chunk.blocks", layer), layer)), {x},
                          fmt::format("tower.tokens{}", layer + 1), true);
    }
    return x;
  }

  // `trees`, and tokens where they are added.
  ValueId read_out(ValueId x, const std::vector<ValueId>& trees) {
    const bool adds = adds_tokens(job_);
    plan::Node readout{.name = "readout", .reads = {x}, .no_grad = !adds};
    readout.reads.insert(readout.reads.end(), trees.begin(), trees.end());
    std::vector<UnitId> units;
    const std::int64_t d = job_.chunk.hidden;
    if (adds)
      units.push_back(
          graph_.unit({.name = "readout",
                       .params = {{.name = "readout.weight", .shape = {dense_.hidden, d}}}}));
    return graph_.node(std::move(readout),
                       linear_work(graph_, dense_.rows(), dense_.hidden * d, dense_.rows() * d),
                       units, {activation(graph_, dense_, "features")})[0];
  }

  // Chunks, their places, the trees that they are, and what these are of where it is added.
  std::vector<ValueId> chunk(ValueId x) {
    Encoder trees = dense_;
    trees.hidden = tree_columns(graph_.rank());
    plan::Value forest = activation(graph_, trees, "tower.trees");
    forest.differentiable = false;
    const UnitId own = unit("tower.chunk", chunk_params(job_, std::string(kTeacher) + "chunk."));
    std::vector<plan::Value> writes = {activation(graph_, chunks_, "tower.x0"),
                                       places(graph_, chunks_, "tower.places", false),
                                       std::move(forest)};
    if (adds_tokens(job_))
      writes.push_back(activation(graph_, chunk_encoder(job_, dense_), "tower.tokens"));
    return node("tower.chunk", {x}, chunk_work(graph_, job_, chunks_), {exact(graph_, own)},
                std::move(writes));
  }

  Graph& graph_;
  const config::Job& job_;
  Encoder dense_, chunks_;
};

}  // namespace

bool adds_tokens(const config::Job& job) { return job.model.family != config::Family::kJepaAc; }

std::int64_t tree_columns(const PerRank& rank) { return 2 * exact_parts(rank.compute) + 1; }

plan::ValueId chunked_tower(Graph& graph, const config::Job& job, const Encoder& encoder,
                            plan::ValueId clips) {
  return ChunkedTower(graph, job, encoder).build(clips);
}

}  // namespace trireme::model
