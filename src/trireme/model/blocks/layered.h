// A decoder's block that runs its layers one by one, as model/layers/layers.h lists them.
#pragma once

#include <array>

#include "trireme/config/job.h"
#include "trireme/model/blocks/adapters.h"
#include "trireme/model/blocks/mrope.h"
#include "trireme/model/layers/layer.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {

// A second input is the positions of tokens: within documents, [samples, tokens], or of M-RoPE, [samples, tokens, 3], or
// both, [samples, tokens, 4].
class LayeredBlock : public AdaptedBlock {
 public:
  // `tables` serve at least model.seq_len positions; `adapted` as AdaptedBlock's.
  LayeredBlock(const config::Job& job, std::vector<model::Layer> layers, const plan::Node& node,
               DecoderTables tables, std::vector<int> adapted,
               std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  // Inputs of a forward, and its tensors as layers number them.
  struct Run {
    const std::vector<at::Tensor>& inputs;
    const exec::BlockContext& context;
    std::vector<ops::Operand> tensors;
  };
  void norm(const model::Layer& layer, Run& run) const;
  void columns(const model::Layer& layer, Run& run) const;
  void attention(const model::Layer& layer, Run& run) const;
  void rows(const model::Layer& layer, Run& run) const;
  at::Tensor bias(const model::Layer& layer, std::size_t of) const {
    return layer.biases.empty() ? at::Tensor() : param(layer.biases[of]);
  }
  // Queries, keys and values as attention takes them: normed and turned as the layer says, on their own.
  std::array<at::Tensor, 3> heads(const model::Layer& layer, Run& run) const;
  bool drops(const model::Layer& layer, const Run& run) const {
    return layer.draw && dropout_ > 0 && run.context.training;
  }
  // RMS norm of queries or keys, if the layer has one.
  at::Tensor head_norm(const model::Layer& layer, std::size_t of, at::Tensor x,
                       const Run& run) const;
  // The rows of a table for positions of this node, or after others.
  ops::RotaryTable rows_of(const ops::RotaryTable& table, const at::Tensor& positions,
                           std::int64_t tokens, const Run& run) const;
  // [samples, tokens], places within documents; undefined: sequences are one.
  at::Tensor within(const at::Tensor& positions) const;

  std::vector<model::Layer> layers_;
  std::vector<std::vector<int>> ended_;  // parallel to layers: tensors that none reads after it
  Kept kept_;
  double norm_eps_;
  double dropout_;
  DecoderTables tables_;
  at::Tensor axes_;  // of M-RoPE
  std::int64_t head_width_;
  std::array<std::int64_t, 2>
      whole_heads_;  // channels of a token's queries and keys over all ranks
};

}  // namespace trireme::blocks
