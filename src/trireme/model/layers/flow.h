// LayerFlow: where gradients go in a block, and what its layers keep for them.
#pragma once

#include <vector>

#include "trireme/model/layers/account.h"
#include "trireme/model/layers/layers.h"

namespace trireme::model {

inline bool is_linear(const Layer& layer) {
  return layer.op == Layer::Op::kColumns || layer.op == Layer::Op::kRows;
}
// A norm of a sum. Without a branch the stream is what the norm reads.
inline bool has_branch(const Layer& layer) {
  return layer.op == Layer::Op::kNorm && layer.reads.size() > 1;
}

// RMS norms of queries and keys.
inline bool norms_heads(const Layer& layer) {
  return layer.op == Layer::Op::kAttention && !layer.weights.empty();
}
// Queries, keys and values that come side by side and are rotated: each becomes a tensor of its own.
inline bool splits_heads(const Layer& layer) {
  return layer.op == Layer::Op::kAttention && layer.reads.size() == 1 && layer.attends.rotary;
}
// An activation that the layer itself makes of what it reads.
inline bool activates(const Layer& layer) {
  return layer.op == Layer::Op::kRows && (layer.activation || layer.reads.size() > 1);
}

class LayerFlow {
 public:
  // Both must outlive this. `exchanged`: attention keeps other heads than the layers around it have.
  LayerFlow(const BlockLayers& block, const TrainedLayers& trained, bool exchanged);

  // Whether a gradient comes back to a tensor, and to any that the layer writes.
  bool reaches(int tensor) const { return reaches_[tensor]; }
  bool flows(const Layer& layer) const;
  bool is_adapted(int weight) const;
  bool adapts(const Layer& layer) const;
  // Whether a trained magnitude scales what the weight gives.
  bool scales(int weight) const;
  bool trains(const Layer& layer) const;
  // Whether the block keeps the tensor for backward; what the node reads is kept by others.
  bool saved(int tensor) const { return tensor != 0 && saved_[tensor]; }
  int last_reader(int tensor) const { return last_[tensor]; }
  // The tensor whose gradient this one has too: sums pass theirs on.
  int gradient_of(int tensor) const;

 private:
  void mark_saved(const Layer& layer, bool exchanged);

  const BlockLayers& block_;
  const TrainedLayers& trained_;
  std::vector<bool> reaches_, saved_;
  std::vector<int> last_;
};

}  // namespace trireme::model
