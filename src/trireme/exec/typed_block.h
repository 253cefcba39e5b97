// TypedBlock: a block that computes in another type than the values it reads and writes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "trireme/exec/block.h"

namespace trireme::exec {

class TypedBlock : public Block {
 public:
  // `outside` is the type of values that are converted for `inner`, and of its converted results. Integers, losses and
  // values with a type of their own are not converted: `typed_reads` and `typed_writes` list the last.
  TypedBlock(std::unique_ptr<Block> inner, at::ScalarType inside, at::ScalarType outside,
             std::vector<bool> typed_reads, std::vector<bool> typed_writes)
      : inner_(std::move(inner)),
        inside_(inside),
        outside_(outside),
        typed_reads_(std::move(typed_reads)),
        typed_writes_(std::move(typed_writes)) {}

  const Block& innermost() const override { return inner_->innermost(); }
  void bind(std::vector<at::Tensor> params) override { inner_->bind(std::move(params)); }
  at::Tensor initial_value(std::size_t index) const override {
    return inner_->initial_value(index);
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext& context) override {
    std::vector<at::Tensor> own;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool converts = inputs[i].scalar_type() == outside_ && !typed_reads_.at(i);
      own.push_back(converts ? inputs[i].to(inside_) : inputs[i]);
    }
    std::vector<at::Tensor> outputs = inner_->forward(own, context);
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].scalar_type() == inside_ && outputs[i].dim() > 0 && !typed_writes_.at(i))
        outputs[i] = outputs[i].to(outside_);
    return outputs;
  }

 private:
  std::unique_ptr<Block> inner_;
  at::ScalarType inside_;
  at::ScalarType outside_;
  std::vector<bool> typed_reads_, typed_writes_;  // parallel to what the node reads and writes
};

}  // namespace trireme::exec
