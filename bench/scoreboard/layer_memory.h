// Layer memory: the bytes of one layer's activations, by token.
#pragma once

#include "bench/scoreboard/stage_memory.h"

namespace trireme::scoreboard {

// Bytes of a token of a micro-batch on one rank, in 16 bits.
struct LayerBytes {
  double kept = 0;       // from forward to backward, by what the practice keeps
  double working = 0;    // beside that while the layer runs, or runs again
  double gradients = 0;  // most of activations at once
};
LayerBytes layer_bytes(const Decoder& model, const Split& split, const MemoryPractice& practice);

}  // namespace trireme::scoreboard
