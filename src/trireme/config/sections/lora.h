// Section lora of a job, as plain data.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/base/quantised.h"

namespace trireme::config {

enum class LoraTargets { kAll, kAttention, kMlp, kQueryValue };
// Divisor of alpha: the rank, or its root (Kalajdzievski 2023).
enum class LoraScaling { kRank, kRootRank };

struct Lora {
  std::int64_t rank = 0;  // 0: no adapters
  double alpha = 16;
  LoraScaling scaling = LoraScaling::kRank;
  double dropout = 0;
  LoraTargets targets = LoraTargets::kAll;
  bool dora = false;              // weights as magnitudes of rows and directions (Liu et al. 2024)
  RowForm base = RowForm::kFull;  // stored form of the frozen matrices of blocks
  std::string also;  // patterns of the model's units that train in addition to the adapters
  bool operator==(const Lora&) const = default;
};

// Factor of B A.
double lora_scale(const Lora& lora);

}  // namespace trireme::config
