// LayerTransients: memory of a list of layers while it runs, tensor by tensor.
#pragma once

#include <algorithm>

#include "trireme/model/account/tape.h"
#include "trireme/model/layers/gradient_tape.h"
#include "trireme/model/layers/layer_bytes.h"
#include "trireme/plan/program.h"

namespace trireme::model {

class LayerTransients : public LayerBytes {
 public:
  using LayerBytes::LayerBytes;
  plan::NodeWork transients() const;

 private:
  // Whose gradients of biases are summed at once.
  std::int64_t biased_features(const Layer& layer) const {
    return layer.biases.empty() ? 0 : features(layer.writes);
  }
  std::int64_t written(const Layer& layer) const {
    return features(layer.writes) * sizes_.tokens * sizes_.element;
  }
  // What dropout or a multiplier makes of what the layer gives, or of its gradient.
  std::int64_t dropped(const Layer& layer) const {
    return layer.multiplier != 1 ? tape_.row : layer.draw ? tape_.dropped : 0;
  }
  // Whether queries, or keys, become others before attention.
  static bool turns(const Layer& layer, int heads) {
    return layer.attends.rotary || (layer.multiplier != 1 && heads == layer.reads[0]);
  }
  // Of a norm over tp ranks, so many of its tensors in the type of sums.
  std::int64_t across(const Layer& layer, int heads, int tensors) const {
    if (!layer.whole_heads || rank_.tp == 1) return 0;
    return tensors * sizes_.tokens * block_.tensors[heads].features * sizes_.statistic;
  }
  // The channel more of queries, of keys or of values.
  std::int64_t channels() const { return (attention_.input() - 3 * attended()) / 3; }
  std::int64_t attended() const { return sizes_.tokens * sizes_.q * sizes_.element; }
  void forward(Tape& tape, bool keeps) const;
  void forward(const Layer& layer, Tape& tape, bool keeps) const;
  void turn(const Layer& layer, Tape& tape, bool keeps) const;
  void backward(Tape& tape, Half half) const;
  void backward(const Layer& layer, Tape& tape, GradientTape& gradients, Half half) const;
  void columns_backward(const Layer& layer, Tape& tape, GradientTape& gradients, Half half) const;
  void rows_backward(const Layer& layer, Tape& tape, GradientTape& gradients, Half half) const;
  void mixer_backward(const Layer& layer, Tape& tape, GradientTape& gradients) const;
  void activation_backward(const Layer& layer, Tape& tape, GradientTape& gradients) const;
  void turn_back(const Layer& layer, Tape& tape) const;
  // Whether it is what attention gives and keeps.
  bool is_attended(int tensor) const;
  // What is dropped of the input for adapters, and once more on the way back.
  void drop(const Layer& layer, Tape& tape, int copies) const {
    if (trained_.dropout && flow_.adapts(layer))
      tape.pass(copies * (layer.op == Layer::Op::kColumns ? tape_.partial : bytes(layer.reads[0])));
  }
  // Rows of at most 256 results at a time, in the type of sums; those of a narrow type twice.
  std::int64_t some_rows(std::int64_t rows, std::int64_t width) const {
    return (narrow() ? 2 : 1) * std::min(rows, kSumRows) * width * sizes_.statistic;
  }
  bool narrow() const { return sizes_.element < sizes_.statistic; }
  // Norms of the rows of weights with magnitudes, and results as these scale them.
  void norms(const Layer& layer, Tape& tape) const;
  void scale(const Layer& layer, Tape& tape, bool keeps) const;
  // Gradients of what is scaled, in the place of those of results.
  void scale_back(const Layer& layer, Tape& tape) const;
  // Whether a tensor that backward reads is gone with this layer: no other reads it later.
  bool gone(const Layer& layer, Half half) const {
    return half == Half::kWhole || !flow_.trains(layer);
  }
};

}  // namespace trireme::model
