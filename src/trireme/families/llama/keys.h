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
  bool operator==(const Llama&) const = default;
};

struct LlamaSections {
  Llama llama;
  bool operator==(const LlamaSections&) const = default;
};

}  // namespace trireme::config
