// Node forms: what the kernels of a language model's node depend on.
#pragma once

#include <compare>
#include <string>

#include "trireme/arch/node_types.h"
#include "trireme/config/job.h"

namespace trireme::planner {

enum class NodeKind { kEmbed, kBlock, kHead };

// Nodes of one form take the same time.
struct NodeForm {
  NodeKind kind = NodeKind::kBlock;
  DType type = DType::kF32;  // that it computes in
  auto operator<=>(const NodeForm&) const = default;
};

class NodeForms {
 public:
  // Of a resolved job.
  explicit NodeForms(const config::Job& job);

  NodeForm of(const std::string& node) const;

 private:
  arch::NodeTypes types_;
};

}  // namespace trireme::planner
