// Trained parts of a model: which of its units, and adapters of its linear layers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

class Training {
 public:
  // Everything, without adapters.
  Training() : Training(config::Model{}, config::Lora{}) {}
  // Parameters that train: those outside model.frozen; with adapters those in lora.also.
  Training(const config::Model& model, const config::Lora& lora);

  // A unit of the model's own.
  bool trains(const std::string& unit) const;
  // Rank of the adapters of those layers that have one; 0: none.
  std::int64_t adapter_rank() const { return lora_.rank; }
  // Adapted layers of a block's attention (queries, keys, values and the output projection) and of its feed-forward
  // layers.
  std::vector<int> adapted_attention(const std::vector<int>& layers) const;
  std::vector<int> adapted_mlp(const std::vector<int>& layers) const;
  bool dropout() const { return lora_.dropout > 0; }
  // Parameters of an adapter of `weight`, [out, in], cut along with it and named as it is, with another word before its
  // last one. `lora_A`, [rank, in], is drawn from N(0, 1/in), so that it keeps the variance of its input. `lora_B`, [out,
  // rank], is zero, so that training begins with the unchanged model (Hu et al. 2021). With lora.dora,
  // `lora_magnitude_vector`, [out], begins with the norms of the weight's rows (Liu et al. 2024); that of a layer shared
  // by inputs is cut as `whole`.
  std::vector<ParamSpec> adapter_params(const ParamSpec& weight, const Cut& whole) const;
  bool dora() const { return lora_.dora; }

  // Throws Error{kUsage} if a pattern names none of the model's own units, or nothing trains.
  void check(const std::vector<std::string>& units) const;

 private:
  config::Lora lora_;
  std::string named_;  // patterns
};

// Whether a unit is one of adapters, or a part of one (unit_optimizers.h).
inline bool holds_adapters(std::string_view unit) {
  return unit.ends_with(".lora") || unit.find(".lora.") != std::string_view::npos;
}

}  // namespace trireme::model
