// Common part of blocks of language models.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "trireme/exec/block.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/blocks/across.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/recomputed.h"

namespace trireme::blocks {

using Blocks = std::vector<std::unique_ptr<exec::Block>>;
using Ranks = std::shared_ptr<const Across>;

// Type of statistics, angles and losses of activations of `type`: fp64 for fp64, else fp32.
inline at::ScalarType statistics_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

// Where the parameters of a pre-norm block with biases stand: as model::block_params lists them.
struct BiasedBlock {
  enum Param {
    kNorm1,
    kNorm1Bias,
    kQkv,
    kQkvBias,
    kOut,
    kOutBias,
    kNorm2,
    kNorm2Bias,
    kUp,
    kUpBias,
    kDown,
    kDownBias
  };
};

// A block whose parameters are bound tensors in node_params order, on one rank or across many.
class BoundBlock : public exec::Block {
 public:
  explicit BoundBlock(std::shared_ptr<const Across> across) : across_(std::move(across)) {}
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }

 protected:
  const at::Tensor& param(std::size_t index) const { return params_[index]; }
  std::size_t params() const { return params_.size(); }
  const Across& across() const { return *across_; }
  const ops::TensorParallel& tp() const { return across_->tp(); }
  // A node's second input, where documents share a sample.
  static at::Tensor positions(const std::vector<at::Tensor>& inputs) {
    return inputs.size() > 1 ? inputs[1] : at::Tensor();
  }
  // How cp ranks share the tokens of a node: its third input, where they are balanced by documents.
  ops::ContextParallel cp(const std::vector<at::Tensor>& inputs) const {
    return across_->cp(inputs.size() > 2 ? inputs[2] : at::Tensor());
  }

 private:
  std::shared_ptr<const Across> across_;
  std::vector<at::Tensor> params_;
};

// Which parts a block keeps for backward, as its node says.
struct Kept {
  Kept() = default;  // all
  explicit Kept(const plan::Node& node)
      : norms(of(node, model::kNorms)),
        attention(of(node, model::kAttention)),
        mlp(of(node, model::kMlp)) {}
  ops::Keep norms = ops::Keep::kYes, attention = ops::Keep::kYes, mlp = ops::Keep::kYes;

 private:
  static ops::Keep of(const plan::Node& node, std::string_view part) {
    return recomputes(node, part) ? ops::Keep::kNo : ops::Keep::kYes;
  }
};

// The last node of a language model: final norm and output layer. Its loss needs no logits elsewhere. A node that is no
// loss writes the losses of tokens, [samples, tokens], which a preference loss reads.
class LanguageHead : public BoundBlock {
 public:
  LanguageHead(const config::Model& model, const plan::Node& node,
               std::shared_ptr<const Across> across, double logits_cap = 0)
      : BoundBlock(std::move(across)),
        norm_eps_(model.norm_eps),
        logits_cap_(logits_cap),
        is_loss_(node.loss),
        logits_(recomputes(node, model::kLogits) ? ops::Logits::kRecomputed : ops::Logits::kKept) {}
  // Logits of rows x, [.., d] -> [.., vocab], capped, in fp32 or fp64; over tp ranks of this rank's part of the
  // vocabulary.
  at::Tensor logits(const at::Tensor& x) const;
  // Activations [d] of the last token of the first sample, from the inputs of forward; they decide what follows it.
  virtual at::Tensor last_row(const std::vector<at::Tensor>& inputs) const {
    const at::Tensor rows = inputs[0].dim() == 3 ? inputs[0].select(0, 0) : inputs[0];
    return rows.select(0, rows.size(0) - 1);
  }
  // Inputs: activations [samples, tokens, d] and targets [samples, tokens].
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 protected:
  virtual at::Tensor norm(const at::Tensor& x, const ops::WeightGradientsPtr& gradients) const = 0;
  double norm_eps() const { return norm_eps_; }
  // The output layer comes last, whether it is its own or the embedding's.
  const at::Tensor& weight() const { return param(params() - 1); }

 private:
  double norm_eps_;
  double logits_cap_;
  bool is_loss_;
  ops::Logits logits_;
};

}  // namespace trireme::blocks
