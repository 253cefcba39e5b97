#include "trireme/families/clip/blocks_predict.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/families/clip/blocks.h"
#include "trireme/families/vit/blocks.h"

namespace trireme::blocks {
namespace {

// Nodes that must run for a value to be there, by node.
std::vector<bool> needed_nodes(const plan::Program& program, plan::ValueId target) {
  std::vector<bool> values(program.values.size()), nodes(program.nodes.size());
  values[target] = true;
  for (std::size_t node = nodes.size(); node-- > 0;) {
    const plan::Node& at = program.nodes[node];
    for (const plan::ValueId written : at.writes) nodes[node] = nodes[node] || values[written];
    if (!nodes[node]) continue;
    for (const plan::ValueId read : at.reads) values[read] = true;
  }
  return nodes;
}

exec::BlockContext context_of_node(std::size_t node) {
  exec::BlockContext context{.training = false};
  context.node = static_cast<int>(node);
  return context;
}

// Computes one value of a program.
at::Tensor partial_value(const exec::Model& model, const PartialInputs& inputs,
                         plan::ValueId target) {
  const plan::Program& program = model.spec.program;
  const std::vector<bool> needed = needed_nodes(program, target);
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> values(inputs);  // inputs come first
  values.resize(program.values.size());
  for (std::size_t node = 0; node < model.blocks.size(); ++node) {
    if (!needed[node]) continue;
    std::vector<at::Tensor> reads;
    for (const plan::ValueId id : program.nodes[node].reads) {
      reads.push_back(values[id]);
      TRIREME_CHECK(reads.back().defined(), "{} needs {}", program.nodes[node].name,
                    program.values[id].name);
    }
    const std::vector<at::Tensor> written =
        model.blocks[node]->forward(reads, context_of_node(node));
    for (std::size_t i = 0; i < written.size(); ++i)
      values[program.nodes[node].writes[i]] = written[i];
  }
  return values[target];
}

// The last node's block, out of what converts types around it.
template <typename Head>
const Head* head_as(const exec::Model& model) {
  return dynamic_cast<const Head*>(&model.blocks.back()->innermost());
}

template <typename Head>
const Head& need_head(const exec::Model& model) {
  const Head* head = head_as<Head>(model);
  TRIREME_CHECK(head != nullptr, "{} has another head", model.spec.program.name);
  return *head;
}

// The index-th value that the last node reads.
at::Tensor before_head(const exec::Model& model, const PartialInputs& inputs, std::size_t index) {
  return partial_value(model, inputs, model.spec.program.nodes.back().reads.at(index));
}

// What a tower without a head of its own ends in: "features" of towers of clips, and of tiles what the projector reads.
plan::ValueId tower_value(const plan::Program& program) {
  const auto projector = std::ranges::find(program.nodes, "projector", &plan::Node::name);
  if (projector != program.nodes.end()) return projector->reads[0];
  const auto features = std::ranges::find(program.values, "features", &plan::Value::name);
  if (features != program.values.end())
    return static_cast<plan::ValueId>(features - program.values.begin());
  fail(ErrorKind::kUsage,
       "a model of family {} has no vision tower, and so no embeddings of pictures or clips",
       program.name);
}

at::Tensor in_fp32_or_fp64(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat);
}

}  // namespace

at::Tensor class_logits(const exec::Model& model, const PartialInputs& inputs) {
  const VitHead& head = need_head<VitHead>(model);
  const at::Tensor tokens = before_head(model, inputs, 0);
  at::NoGradGuard no_grad;
  return in_fp32_or_fp64(head.logits(tokens, context_of_node(model.blocks.size() - 1)));
}

at::Tensor picture_features(const exec::Model& model, const PartialInputs& inputs) {
  return in_fp32_or_fp64(before_head(model, inputs, 0));
}

at::Tensor caption_features(const exec::Model& model, const PartialInputs& inputs) {
  return in_fp32_or_fp64(before_head(model, inputs, 1));
}

at::Tensor caption_chances(const exec::Model& model, const at::Tensor& pictures,
                           const at::Tensor& captions) {
  const ContrastiveLoss& loss = need_head<ContrastiveLoss>(model);
  at::NoGradGuard no_grad;
  const at::Tensor scores = loss.scores(pictures, captions);
  return loss.loss() == config::ContrastiveLoss::kClip ? scores.softmax(1) : scores.sigmoid();
}

at::Tensor embedding(const exec::Model& model, const PartialInputs& inputs) {
  at::NoGradGuard no_grad;
  if (const auto* head = head_as<VitHead>(model))
    return in_fp32_or_fp64(
        head->feature(before_head(model, inputs, 0), context_of_node(model.blocks.size() - 1))[0]);
  if (head_as<ContrastiveLoss>(model) != nullptr) return picture_features(model, inputs)[0];
  const at::Tensor rows =
      in_fp32_or_fp64(partial_value(model, inputs, tower_value(model.spec.program)));
  return rows.reshape({-1, rows.size(-1)}).mean(0);
}

}  // namespace trireme::blocks
