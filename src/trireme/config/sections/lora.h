// Section lora of a job, as plain data.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::config {

enum class LoraTargets { kAll, kAttention, kMlp, kQueryValue };

struct Lora {
  std::int64_t rank = 0;  // 0: no adapters
  double alpha = 16;
  double dropout = 0;
  LoraTargets targets = LoraTargets::kAll;
  std::string also;  // patterns of the model's units that train in addition to the adapters
  bool operator==(const Lora&) const = default;
};

}  // namespace trireme::config
