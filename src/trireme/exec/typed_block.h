// TypedBlock: a block that computes in another type than the values it reads and writes.
#pragma once

#include <memory>
#include <utility>

#include "trireme/exec/block.h"

namespace trireme::exec {

class TypedBlock : public Block {
 public:
  // `outside` is the type of values that are converted on their way in, and into which what `inner` writes is
  // converted; integers and losses stay as they are.
  TypedBlock(std::unique_ptr<Block> inner, at::ScalarType inside, at::ScalarType outside)
      : inner_(std::move(inner)), inside_(inside), outside_(outside) {}

  const Block& inner() const { return *inner_; }
  void bind(std::vector<at::Tensor> params) override { inner_->bind(std::move(params)); }
  at::Tensor initial_value(std::size_t index) const override {
    return inner_->initial_value(index);
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext& context) override {
    std::vector<at::Tensor> own;
    for (const at::Tensor& input : inputs)
      own.push_back(input.scalar_type() == outside_ ? input.to(inside_) : input);
    std::vector<at::Tensor> outputs = inner_->forward(own, context);
    for (at::Tensor& output : outputs)
      if (output.scalar_type() == inside_ && output.dim() > 0) output = output.to(outside_);
    return outputs;
  }

 private:
  std::unique_ptr<Block> inner_;
  at::ScalarType inside_;
  at::ScalarType outside_;
};

}  // namespace trireme::exec
