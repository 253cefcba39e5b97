#include "trireme/planner/node_forms.h"

namespace trireme::planner {
namespace {

NodeKind kind_of(const std::string& node) {
  if (node == "embed") return NodeKind::kEmbed;
  return node == "head" ? NodeKind::kHead : NodeKind::kBlock;
}

}  // namespace

NodeForms::NodeForms(const config::Job& job)
    : types_(job.precision.compute, job.precision.nodes) {}

NodeForm NodeForms::of(const std::string& node) const {
  return {.kind = kind_of(node), .type = types_.of(node)};
}

}  // namespace trireme::planner
