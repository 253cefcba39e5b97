// A decoder as a chain of nodes: embedding, blocks and head, each with a unit of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/work.h"
#include "trireme/model/graph.h"
#include "trireme/model/layers/layers.h"

namespace trireme::model {

// The embedding from another family's nodes: x as unit `embed` would write it, the unit whose first parameter a tied
// head shares, and further inputs.
struct Embedded {
  plan::ValueId x = -1;
  plan::ValueId targets = -1;
  plan::ValueId positions = -1;
  plan::UnitId unit = -1;
};

// Builds the chain on a graph; families add their parameters. All references must outlive it.
class Chain {
 public:
  // After inputs of its own.
  Chain(Graph& graph, const config::Model& model, const Sizes& sizes);
  // After the embedding of another node.
  Chain(Graph& graph, const config::Model& model, const Sizes& sizes, const Embedded& embedded)
      : Chain(graph, model, sizes, embedded, -1) {}

  // A second parameter is a table of positions. `scaled`: the result is multiplied.
  void embed(std::vector<ParamSpec> params, std::int64_t saved_bytes, bool scaled = false);
  void block(BlockLayers layers);
  // Result of the last node, and its replacement as input of the next one.
  plan::ValueId written() const { return x_; }
  void then(plan::ValueId x) { x_ = x; }
  // A tied head multiplies by the first parameter of unit `embed`. `statistics` as TrainedHead's; `capped`: logits go
  // through a tanh.
  void head(std::vector<ParamSpec> params, std::int64_t statistics, bool capped = false);

 private:
  Chain(Graph& graph, const config::Model& model, const Sizes& sizes, const Embedded& embedded,
        plan::ValueId tokens);

  // Adapters of these weights, a unit of their own, to the block that was added last.
  void adapt(const std::vector<ParamSpec>& params, std::vector<int> weights);
  std::vector<plan::ValueId> with_positions(plan::ValueId value) const;
  // In the type that the node computes in.
  Sizes sizes_of(const std::string& node) const { return {model_, typed(node)}; }
  PerRank typed(const std::string& node) const;
  Exchanges exchanges(const std::string& node) const { return {sizes_of(node), typed(node)}; }
  // With, of a node of another type, what it writes before it is converted, or the gradients of that.
  plan::NodeWork converting(const std::string& node, plan::NodeWork work) const;
  // The copy that a node of another type makes of the activation it reads, if a gradient comes back to it.
  std::int64_t converted_bytes(const plan::Node& node) const;
  plan::Value activation() const;
  // A node with a unit of its own and the same name.
  void node(plan::Node node, Work work, std::vector<ParamSpec> params, plan::Value writes);

  const config::Model& model_;
  const Sizes& sizes_;
  const PerRank& rank_;
  const Training& training_;
  Graph& graph_;
  plan::ValueId tokens_;
  plan::ValueId targets_;
  plan::ValueId positions_;              // -1: samples are one document
  plan::ValueId chunks_ = -1;            // -1: not an input
  std::vector<plan::ValueId> compared_;  // inputs of a preference loss
  plan::ValueId x_;
  plan::UnitId embed_;
  int blocks_ = 0;
};

// The model of a chain alone, whose samples are model.seq_len tokens.
ModelSpec chain_spec(Graph graph, const config::Model& model);

}  // namespace trireme::model
