// Options of optimizers. A formula without eps ignores it.
#pragma once

#include <array>

#include "trireme/config/optimizers.h"

namespace trireme::optim {

struct OptimizerOptions {
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;  // where an update brings none
  bool stochastic =
      false;  // how bf16 masters and states are rounded: up as often as they are near (rounding.h)
  bool int8_states = false;  // states as 8-bit codes (quantise.h)
  config::MuonSettings muon{};
};

}  // namespace trireme::optim
