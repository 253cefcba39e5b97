// The list of optimizers, what is known of one before anything exists, and groups of parameters.
#pragma once

#include <optional>
#include <string>

// Each with its name, optim.name's spelling, and the tensors of state that a parameter has. The source of each defines
// make_<spelling> (optim/make_optimizer.h).
#define TRIREME_OPTIMIZERS(OPTIMIZER) \
  OPTIMIZER(AdamW, adamw, 2)          \
  OPTIMIZER(Lion, lion, 1)

namespace trireme::config {

#define OPTIMIZER(name, key, states) k##name,
enum class Optimizer { TRIREME_OPTIMIZERS(OPTIMIZER) };
#undef OPTIMIZER

struct OptimizerInfo {
  Optimizer optimizer;
  const char* key;
  int states;
};

#define OPTIMIZER(name, key, states) {Optimizer::k##name, #key, states},
inline constexpr OptimizerInfo kOptimizers[] = {TRIREME_OPTIMIZERS(OPTIMIZER)};
#undef OPTIMIZER

inline const OptimizerInfo& info(Optimizer optimizer) {
  return kOptimizers[static_cast<int>(optimizer)];
}

// Parameters with a learning rate and a weight decay of their own.
struct ParamGroup {
  std::string match;   // patterns of parameters or units, with commas between them
  double lr_mult = 1;  // multiplies the learning rate
  std::optional<double> weight_decay{};  // of all its parameters; none: as without the group
  bool operator==(const ParamGroup&) const = default;
};

}  // namespace trireme::config
