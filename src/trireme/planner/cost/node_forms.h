// Node forms: what the kernels of a language model's node depend on.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/layer_attention.h"
#include "trireme/model/node_types.h"
#include "trireme/model/training.h"

namespace trireme::planner {

enum class NodeKind { kEmbed, kBlock, kHead, kPreference };

// Kind of a node that model::describe calls "embed", "block.N", "head" or "preference". Throws Error{kUsage} for other
// nodes: nothing here prices them.
NodeKind kind_of(std::string_view node);

// Nodes of one form take the same time.
struct NodeForm {
  NodeKind kind = NodeKind::kBlock;
  DType type = DType::kF32;          // that it computes in
  bool trains = true;                // its own matrices, apart from adapters
  config::LayerAttention attends{};  // of a block
  auto operator<=>(const NodeForm&) const = default;
};

class NodeForms {
 public:
  // Forms of a resolved job.
  explicit NodeForms(const config::Job& job);

  NodeForm of(const std::string& node) const;

 private:
  model::NodeTypes types_;
  model::Training training_;
  bool tied_;
  std::vector<config::LayerAttention> layers_;
};

}  // namespace trireme::planner
