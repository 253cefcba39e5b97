// Suffixes: t packed row, d width, k chunk.
#include "trireme/families/hnet/blocks.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/past.h"
#include "trireme/families/hnet/blocks_chunking.h"
#include "trireme/families/hnet/blocks_stages.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/embedding.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

using model::HnetNode;

// Reads tokens [samples, bytes] and, where documents share a sample, positions; writes rows and where sequences begin.
class Embed final : public BoundBlock {
 public:
  using BoundBlock::BoundBlock;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::Tensor x = ops::embedding(inputs[0], param(0), across().first_id(), tp());
    const at::Tensor given = positions(inputs);
    at::Tensor starts = at::zeros(inputs[0].sizes(), x.options());
    if (given.defined()) starts = (given == 0).to(x.scalar_type());
    if (context.past == nullptr || context.past->rows == 0) starts.select(1, 0).fill_(1);
    if (context.past != nullptr) context.past->rows += inputs[0].numel();
    return {x.reshape({-1, x.size(-1)}).to(statistics_type(x.scalar_type())), starts.flatten()};
  }
};

// Reads rows and the beginnings of sequences. Writes the rows that bypass the inner stage, the router's p and
// boundaries, the chunks and the beginnings of their sequences.
class Route final : public BoundBlock {
 public:
  Route(double norm_eps, int parts, at::ScalarType outside, Ranks ranks)
      : BoundBlock(std::move(ranks)), norm_eps_(norm_eps), parts_(parts), outside_(outside) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    exec::Past* const past = context.past;
    if (past != nullptr && inputs[0].size(0) == 0) return none_of(inputs);
    const at::Tensor x_td =
        ops::rms_norm(inputs[0], param(kNorm), norm_eps_, context.weight_gradients);
    const bool follows = past != nullptr && !past->kept.empty();
    const Routing routing = route(x_td, param(kQuery), param(kKey), Sequences(inputs[1]),
                                  follows ? past->kept[0] : at::Tensor());
    if (past != nullptr) past->kept = {routing.last};
    const at::Tensor firsts = chunk_rows(routing.boundary);
    at::Tensor chunks_kd = x_td.index_select(0, firsts);
    if (params() > kFill)
      chunks_kd = at::cat({chunks_kd, param(kFill).expand({firsts.size(0), -1})}, 1);
    return {x_td, in_parts(routing.p, parts_, outside_),
            routing.boundary.to(inputs[1].scalar_type()), chunks_kd,
            inputs[1].index_select(0, firsts)};
  }

 private:
  enum Param { kNorm, kQuery, kKey, kFill };

  // Result without rows.
  std::vector<at::Tensor> none_of(const std::vector<at::Tensor>& inputs) const {
    const at::Tensor &x_td = inputs[0], &starts = inputs[1];
    const std::int64_t more = params() > kFill ? param(kFill).size(0) : 0;
    return {x_td, starts.new_zeros({0, parts_}, outside_), starts,
            x_td.new_zeros({0, x_td.size(1) + more}), starts};
  }

  double norm_eps_;
  int parts_;
  at::ScalarType outside_;
};

// The ratio loss of a sequence counts as often as it has bytes with a target, as their cross-entropy does. Reads p,
// boundaries and where sequences begin, targets and, further in, where sequences of bytes begin.
class Ratio final : public BoundBlock {
 public:
  Ratio(std::size_t stage, double ratio, double weight, Ranks ranks)
      : BoundBlock(std::move(ranks)), stage_(stage), ratio_(ratio), weight_(weight) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::Tensor p = from_parts(inputs[0]);
    const Sequences sequences(inputs[2]),
        bytes(inputs.back().dim() == 1 ? inputs.back() : inputs[2]);
    const at::Tensor with_target = (inputs[3].flatten() != ops::kNoTarget).to(p.scalar_type());
    const at::Tensor targets =
        at::zeros({bytes.count()}, p.options()).index_add(0, bytes.number, with_target);
    if (context.counts != nullptr) count(inputs[1], sequences, targets, *context.counts);
    return {weight_ * (ratio_losses(p, inputs[1], sequences, ratio_) * targets).sum()};
  }

 private:
  // Boundaries out of rows, of sequences that have a target.
  void count(const at::Tensor& boundary, const Sequences& sequences, const at::Tensor& targets,
             exec::Counts& counts) const {
    const at::Tensor counted = (targets > 0).index_select(0, sequences.number);
    const at::Tensor begins = (boundary > 0).logical_and(counted);
    counts.add(1 + stage_, begins.sum().item<double>(), counted.sum().item<double>());
  }

  std::size_t stage_;
  double ratio_;
  double weight_;
};

// Reads what the inner stage made of the chunks, where its sequences begin, the rows that went around it, p and boundaries;
// writes rows.
class Join final : public BoundBlock {
 public:
  Join(double norm_eps, Ranks ranks) : BoundBlock(std::move(ranks)), norm_eps_(norm_eps) {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const ops::WeightGradientsPtr& gradients = context.weight_gradients;
    const at::Tensor &skip_td = inputs[2], &boundary = inputs[4];
    const at::Tensor p = from_parts(inputs[3]);
    if (context.past != nullptr) return {joined_on(inputs, p, *context.past)};
    const at::Tensor inner_kd = ops::rms_norm(inputs[0], param(kNorm), norm_eps_, gradients)
                                    .narrow(1, 0, skip_td.size(1))
                                    .to(p.scalar_type());
    const at::Tensor smooth_kd =
        smoothed(inner_kd, p.index_select(0, chunk_rows(boundary)), Sequences(inputs[1]));
    const at::Tensor y_td = smooth_kd.index_select(0, chunk_of_rows(boundary));
    const at::Tensor sure = straight_through_confidence(p, boundary).unsqueeze(1);
    const at::Tensor around_td =
        ops::linear(skip_td, param(kResidual), param(kResidualBias), gradients);
    return {y_td * sure + around_td};
  }

 private:
  // Rows that follow others: those before the first boundary are in the chunk that was the last one.
  at::Tensor joined_on(const std::vector<at::Tensor>& inputs, const at::Tensor& p,
                       exec::Past& past) const {
    const at::Tensor &skip_td = inputs[2], &boundary = inputs[4];
    if (skip_td.size(0) == 0) return skip_td.to(p.scalar_type());
    past.kept.resize(2);  // the last chunk, and the state of smoothing
    at::Tensor& last = past.kept[0];
    if (!last.defined()) last = skip_td.new_zeros({1, skip_td.size(1)}, p.scalar_type());
    at::Tensor chunks_kd = last;
    if (inputs[0].size(0) > 0) {
      const at::Tensor inner_kd = ops::rms_norm(inputs[0], param(kNorm), norm_eps_)
                                      .narrow(1, 0, skip_td.size(1))
                                      .to(p.scalar_type());
      chunks_kd = at::cat({last, smoothed(inner_kd, p.index_select(0, chunk_rows(boundary)),
                                          Sequences(inputs[1]), &past.kept[1])});
    }
    last = chunks_kd.narrow(0, chunks_kd.size(0) - 1, 1);
    return chunks_kd.index_select(0, chunk_of_rows(boundary) + 1) +
           ops::linear(skip_td, param(kResidual), param(kResidualBias));
  }

  enum Param { kNorm, kResidual, kResidualBias };
  double norm_eps_;
};

// Reads rows and targets.
class Head final : public LanguageHead {
 public:
  using LanguageHead::LanguageHead;
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::Tensor loss =
        LanguageHead::forward({inputs[0].unsqueeze(0), inputs[1].reshape({1, -1})}, context)[0];
    if (context.counts != nullptr)
      context.counts->add(0, loss.item<double>(),
                          (inputs[1] != ops::kNoTarget).sum().item<double>());
    return {loss};
  }

 protected:
  at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const override {
    return ops::rms_norm(x, param(0), norm_eps(), gradients);
  }
};

std::unique_ptr<exec::Block> block_of(const config::Job& job, const HnetNode& node,
                                      const config::HnetStage& stage, const plan::Node& planned,
                                      const std::vector<model::Layer>& layers, const Ranks& ranks) {
  const double eps = job.model.norm_eps;
  switch (node.kind) {
    case HnetNode::Kind::kEmbed: return std::make_unique<Embed>(ranks);
    case HnetNode::Kind::kBlock: return hnet_block(job.model, stage, layers, ranks);
    case HnetNode::Kind::kRoute:
      return std::make_unique<Route>(eps, model::exact_parts(job.precision.compute),
                                     comm::scalar_type(job.precision.compute), ranks);
    case HnetNode::Kind::kRatio:
      return std::make_unique<Ratio>(node.stage, stage.ratio, job.hnet.ratio_weight, ranks);
    case HnetNode::Kind::kJoin: return std::make_unique<Join>(eps, ranks);
    case HnetNode::Kind::kHead: return std::make_unique<Head>(job.model, planned, ranks);
  }
  TRIREME_CHECK(false, "a node of kind {}", static_cast<int>(node.kind));
}

}  // namespace

Blocks hnet_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const std::vector<config::HnetStage> stages = config::hnet_stages(job.hnet);
  Blocks blocks;
  for (const HnetNode& node : model::hnet_nodes(stages))
    blocks.push_back(block_of(job, node, stages[node.stage], spec.program.nodes[blocks.size()],
                              spec.layers[blocks.size()], ranks));
  return blocks;
}

}  // namespace trireme::blocks
