// What blocks of language models share.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "trireme/exec/block.h"
#include "trireme/ops/cross_entropy.h"
#include "trireme/ops/linear.h"

namespace trireme::models {

// A block whose parameters are bound tensors in node_params order.
class BoundBlock : public exec::Block {
 public:
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }

 protected:
  const at::Tensor& param(std::size_t index) const { return params_[index]; }
  std::size_t params() const { return params_.size(); }

  // x [.., in] times weight^T, plus bias: parameters `index` and `index + 1`.
  at::Tensor linear_biased(const at::Tensor& x, std::size_t index) const {
    return ops::linear(x, params_[index], params_[index + 1]);
  }
  at::Tensor linear(const at::Tensor& x, std::size_t index) const {
    return ops::linear(x, params_[index]);
  }

 private:
  std::vector<at::Tensor> params_;
};

// The last node of a language model: final norm and output layer. Its loss needs no logits elsewhere.
class LanguageHead : public BoundBlock {
 public:
  explicit LanguageHead(bool recompute_logits)
      : logits_(recompute_logits ? ops::Logits::kRecomputed : ops::Logits::kKept) {}
  // Logits of normed rows x, [.., d] -> [.., vocab], in fp32 or fp64.
  at::Tensor logits(const at::Tensor& x) const;
  // Inputs: activations [samples, tokens, d] and targets [samples, tokens].
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) final;

 protected:
  virtual at::Tensor norm(const at::Tensor& x) const = 0;
  // The output layer comes last, whether it is its own or the embedding's.
  const at::Tensor& weight() const { return param(params() - 1); }

 private:
  ops::Logits logits_;
};

}  // namespace trireme::models
