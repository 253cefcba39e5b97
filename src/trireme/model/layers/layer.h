// Layer: one operation of a block, as data.
#pragma once

#include <optional>
#include <vector>

#include "trireme/config/layer_attention.h"
#include "trireme/config/sections/model.h"

namespace trireme::model {

// Tensors are numbered: 0 is what the node reads, layers write the others.
struct Layer {
  enum class Op {
    // {x} or {x, branch} -> {stream, normed}: x or their sum, and its norm: LayerNorm with a bias, RMSNorm without.
    // Without a branch the stream has the number of x.
    kNorm,
    // {x} -> a tensor a weight, or several that one weight gives side by side: linear layers that open a tensor-parallel
    // region.
    kColumns,
    kAttention,   // {queries, keys, values}, or {all three side by side} -> {mixed}
    kActivation,  // {x} -> {y}: an activation whose result the next layer keeps
    // {x} -> {y}: a linear layer that closes the region, after its activation if there is one. {gate, up} -> {y}: after
    // activation(gate) * up.
    kRows,
    kMixer,  // {x} -> {mixed}: a family's own, of BlockLayers::mixer; over tp ranks a region
    kAdd,    // {a, b} -> {sum}
  };
  Op op = Op::kAdd;
  std::vector<int> reads{};
  std::vector<int> writes{};
  // Parameters of the node: a norm's gain, or matrices; of kAttention gains of an RMS norm of queries and of one of keys, or
  // none.
  std::vector<int> weights{};
  std::vector<int> biases{};                       // one a weight, or none
  std::optional<config::Activation> activation{};  // of kActivation, and of kRows with one x
  bool wide = false;                 // of kColumns: an activation reads what they give (part mlp)
  config::LayerAttention attends{};  // of kAttention
  bool causal = true;                // of kAttention: a token sees none after it
  int angles =
      1;  // of kAttention: cosines and sines that turn a channel; 2 where channels have their own
  bool key_bias =
      false;  // of kAttention: scores of a key have a bias, for which heads get one channel more
  // In training, dropout of attention's probabilities or of what kRows give: which of the node's random draws it takes.
  std::optional<int> draw{};
  config::GateActivation gate{};  // of kRows with gate and up
  bool from_one = false;          // of RMS norms: they multiply by 1 + gain
  bool whole_heads = false;  // of kAttention: its norms are of all heads of a token, else of each
  double multiplier = 1;     // of what kRows give, and of attention's queries after all else
  double cap = 0;            // of kAttention: scores z become cap tanh(z / cap); 0: they stay
};

}  // namespace trireme::model
