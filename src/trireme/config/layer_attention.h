// How each layer of a decoder attends: model.attention_layers.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/sections/model.h"

namespace trireme::config {

struct LayerAttention {
  std::int64_t window = 0;  // tokens that a query sees, its own included; 0: all up to its own
  bool rotary = true;       // queries and keys are rotated
  auto operator<=>(const LayerAttention&) const = default;
};

// Of every layer. Throws Error{kUsage}.
std::vector<LayerAttention> layer_attention(const Model& model);
// The shortest model.attention_layers for these layers; empty where all attend to everything before.
std::string print(const std::vector<LayerAttention>& layers);

}  // namespace trireme::config
