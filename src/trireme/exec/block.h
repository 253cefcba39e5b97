// Block: what one node of a program does. Forward on detached inputs; autograd inside, never across.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "trireme/model/spec.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::exec {

// Sums that a loss node computes in addition to its loss, such as the number of correct answers; one for each entry of
// ModelSpec::metrics. They are added over the micro-batches of all ranks, like losses.
class Counts {
 public:
  struct Count {
    double sum = 0;
    double of = 0;
  };
  explicit Counts(std::size_t metrics) : counts_(metrics) {}
  void add(std::size_t metric, double sum, double of) {
    counts_.at(metric).sum += sum;
    counts_.at(metric).of += of;
  }
  const std::vector<Count>& all() const { return counts_; }

 private:
  std::vector<Count> counts_;
};

struct Past;

// Context of a forward in addition to its inputs. It has the coordinates that key its noise, which are global, so that
// any layout, schedule and recomputation draws the same bits. It also has the target of its gradients.
struct BlockContext {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;  // global id within the step, 0 .. G-1
  int node = 0;
  bool training = true;  // false: evaluation and generation, no noise
  // Collects gradients of parameters from this forward's backward, for the ops of the forward; null: no backward
  // follows.
  ops::WeightGradientsPtr weight_gradients{};
  // Set for a loss node of a model with metrics, when it runs for the first time; else null.
  Counts* counts = nullptr;
  // For a block that can read a sequence in parts: the rows before its inputs, of one sequence. The block appends its
  // own. Null: inputs are whole sequences.
  Past* past = nullptr;

  // A fresh generator for the op-th random draw of this forward.
  at::Generator generator(int op) const;
};

class Block {
 public:
  virtual ~Block() = default;
  // The block that computes, where this one only converts types around it.
  virtual const Block& innermost() const { return *this; }

  // Called once: `params` are views into unit buffers in node_params order, in the compute type.
  // The block keeps them; their bytes come and go with unshard and reshard. A trainable one has a grad()
  // of the gradient type, which autograd or an op adds to.
  virtual void bind(std::vector<at::Tensor> params) = 0;

  // Inputs in the order of the node's reads, outputs in the order of its writes. A loss node returns
  // one scalar: the sum over its valid tokens (not the mean), in fp32 or fp64.
  virtual std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                          const BlockContext& context) = 0;

  // The initial value of the index-th bound parameter, of its shape and any type; undefined to use the spec's Init.
  virtual at::Tensor initial_value(std::size_t index) const { return {}; }
};

// A model ready to run: the description and one block per node.
struct Model {
  model::ModelSpec spec;
  std::vector<std::unique_ptr<Block>> blocks;  // parallel to spec.program.nodes
};

}  // namespace trireme::exec
