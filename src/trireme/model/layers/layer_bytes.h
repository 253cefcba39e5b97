// LayerBytes: sizes of a block's tensors on a rank, and what each layer keeps for backward.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/model/account/attention_tape.h"
#include "trireme/model/account/layer_tape.h"
#include "trireme/model/account/work.h"
#include "trireme/model/layers/account.h"
#include "trireme/model/layers/flow.h"
#include "trireme/model/layers/layers.h"

namespace trireme::model {

class LayerBytes {
 public:
  // All references must outlive this.
  LayerBytes(const BlockLayers& block, const TrainedLayers& trained, const config::Model& model,
             const Sizes& sizes, const PerRank& rank);

  // All that is kept, except the input of the node.
  std::int64_t kept() const;

 protected:
  std::int64_t bytes(int tensor) const;
  std::int64_t features(const std::vector<int>& tensors) const;
  LinearLayers linear(int weight) const;
  // Adapters' inner rows.
  std::int64_t inner(const Layer& layer) const;
  // Features of a token that a linear layer reads, and those that its weight `of` gives.
  std::int64_t read(const Layer& layer) const {
    return layer.op == Layer::Op::kColumns ? sizes_.d : features({layer.reads[0]});
  }
  std::int64_t given(const Layer& layer, std::size_t of) const;
  // Of those, all that magnitudes scale; of the weight `of`, or of every weight together.
  std::int64_t scaled(const Layer& layer, std::size_t of) const;
  std::int64_t scaled(const Layer& layer) const;
  // What magnitudes keep: results as they come, norms of rows, and zeros in place of biases.
  std::int64_t magnitudes(const Layer& layer) const;
  // What norms of queries, or of keys, keep.
  std::int64_t head_statistics(const Layer& layer, int heads) const;
  // The sigmoid that an activation multiplies by.
  std::int64_t gate_bytes(const Layer& layer) const;
  // Bytes that a layer keeps in addition to tensors of the block.
  std::int64_t hidden(const Layer& layer) const;

  const BlockLayers& block_;
  const TrainedLayers& trained_;
  const config::Model& model_;
  const Sizes& sizes_;
  const PerRank& rank_;
  LayerTape tape_;
  AttentionTape attention_;
  LayerFlow flow_;

 private:
  // In addition to queries and keys as they come: these normed, unless other heads are kept, and statistics. Or all that
  // came side by side.
  std::int64_t own_heads(const Layer& layer) const;
};

}  // namespace trireme::model
