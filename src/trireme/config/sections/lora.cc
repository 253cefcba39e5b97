#include "trireme/config/sections/lora.h"

#include <cmath>

namespace trireme::config {

double lora_scale(const Lora& lora) {
  const auto rank = static_cast<double>(lora.rank);
  return lora.alpha / (lora.scaling == LoraScaling::kRootRank ? std::sqrt(rank) : rank);
}

}  // namespace trireme::config
