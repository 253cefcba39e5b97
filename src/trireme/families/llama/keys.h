// In what a model differs from Llama.
#pragma once

#include "trireme/config/sections/activation.h"

namespace trireme::config {

// Where a block's RMS norms are: before its branches, after them, or both.
enum class NormPlaces { kBefore, kAfter, kBoth };

// In what a model differs from Llama. The defaults are Llama's.
struct Llama {
  NormPlaces norms = NormPlaces::kBefore;
  bool gains_from_one = false;                  // norms multiply by 1 + gain
  bool whole_qk_norm = false;                   // model.qk_norm is of all heads of a token together
  GateActivation gate = GateActivation::kSilu;  // of the feed-forward layers
  double sliding_theta = 0;  // model.rope_theta of layers with a window, unscaled; 0: as others
  double attention_multiplier = 0;                           // of scores; 0: 1 / sqrt(head width)
  double embedding_multiplier = 1, residual_multiplier = 1;  // of x, and of what a branch adds
  double logits_divisor = 1;
  double attention_cap = 0,
         logits_cap = 0;           // scores and logits z become cap tanh(z / cap); 0: none
  bool output_bias = false;        // attention's output layer has one
  bool feed_forward_bias = false;  // and the layers of the feed-forward part
  double rotary_fraction = 1;      // share of each head's channels that turn
  bool operator==(const Llama&) const = default;
};

struct LlamaSections {
  Llama llama;
  bool operator==(const LlamaSections&) const = default;
};

}  // namespace trireme::config
