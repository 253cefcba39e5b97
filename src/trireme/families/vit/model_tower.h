// Towers as data: nodes before, between and after the blocks of an image tower.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/families/encoder.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Node and unit names begin with `nodes`, parameter names with `params`.
struct TowerNames {
  std::string nodes;
  std::string params;
};

// Nodes `embed` and `block.0` .. of clips, float [sequences, 3, frames, image, image]; returns what the last writes.
plan::ValueId tower_nodes(Graph& graph, const config::Vision& vision, plan::ValueId clips,
                          const TowerNames& names);
// `layers` blocks one after the other on an activation x that is called "x" where node names begin with nothing.
plan::ValueId block_nodes(Graph& graph, const Encoder& encoder, std::int64_t layers,
                          plan::ValueId x, const TowerNames& names);

// patch_embed.proj; the class token and positions where the tower has them; norm_pre. In the order of
// blocks::PatchEmbed.
std::vector<ParamSpec> patch_params(const config::Vision& vision, std::string_view prefix);
// The last norm. A tower that pools by attention also has the head of SigLIP: a query, cross-attention, norm and MLP
// (Zhai et al. 2022), cut over tp like blocks. In the order of blocks::Pool.
std::vector<ParamSpec> pool_params(const config::Vision& vision, std::string_view prefix);
// Work of pooling a micro-batch.
Work pool_work(const Graph& graph, const config::Vision& vision);
// Exchanges of tp ranks in pooling.
std::vector<plan::NodeExchange> pool_exchanges(const Graph& graph, const config::Vision& vision,
                                               bool reached);

// [samples, width] in the compute type.
plan::Value features(const Graph& graph, std::string name, std::int64_t width);
// Works of one node, one after the other.
Work added(Work a, const Work& b);

}  // namespace trireme::model
