// Keys of GPT-NeoX.
#pragma once

#include "trireme/config/sections/activation.h"

namespace trireme::config {

// GPT-NeoX and Pythia: what its blocks have of their own.
struct Neox {
  double rotary_fraction = 0.25;  // of a head's channels, which turn
  bool parallel_residual = true;  // attention and feed-forward read the same, and are added at once
  Activation activation = Activation::kGelu;
  bool operator==(const Neox&) const = default;
};

struct NeoxSections {
  Neox neox;
  bool operator==(const NeoxSections&) const = default;
};

}  // namespace trireme::config
