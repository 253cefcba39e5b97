#include "trireme/planner/cost/node_forms.h"

#include "trireme/base/error.h"

namespace trireme::planner {

namespace {

constexpr std::string_view kBlock = "block.";

}  // namespace

NodeKind kind_of(std::string_view node) {
  constexpr std::string_view kDigits = "0123456789";
  if (node == "embed") return NodeKind::kEmbed;
  if (node == "head") return NodeKind::kHead;
  if (node == "preference") return NodeKind::kPreference;
  if (node.starts_with(kBlock) && node.size() > kBlock.size() &&
      node.find_first_not_of(kDigits, kBlock.size()) == node.npos)
    return NodeKind::kBlock;
  fail(ErrorKind::kUsage, "node {} has no price; needs embed, block.N, head or preference", node);
}

NodeForms::NodeForms(const config::Job& job)
    : types_(job.precision.compute, job.precision.nodes),
      training_(job.model, job.lora),
      tied_(job.model.tied),
      layers_(config::layer_attention(job.model)) {}

NodeForm NodeForms::of(const std::string& node) const {
  const NodeKind kind = kind_of(node);
  const bool shared = kind == NodeKind::kHead && tied_;  // its matrix is the table
  NodeForm form{
      .kind = kind, .type = types_.of(node), .trains = training_.trains(shared ? "embed" : node)};
  if (kind == NodeKind::kBlock) form.attends = layers_.at(std::stoul(node.substr(kBlock.size())));
  return form;
}

}  // namespace trireme::planner
