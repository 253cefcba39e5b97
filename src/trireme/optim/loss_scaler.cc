#include "trireme/optim/loss_scaler.h"

#include <algorithm>

#include "trireme/base/error.h"

namespace trireme::optim {

void LossScaler::update(bool overflow, std::int64_t run_step) {
  const std::int64_t step = state_.steps++;
  if (overflow) {
    state_.last_overflow = step;
    if (state_.hysteresis > 1) {
      --state_.hysteresis;
      return;
    }
    if (state_.scale <= options_.floor)
      fail(ErrorKind::kNonFinite,
           "step {}: loss or gradients are not finite at a loss scale of {}, its floor; no "
           "parameter "
           "was changed; lower optim.lr, check the data, or compute in bf16",
           run_step, state_.scale);
    state_.scale = std::max(state_.scale / options_.factor, options_.floor);
  } else if ((step - state_.last_overflow) % options_.window == 0) {
    state_.hysteresis = options_.hysteresis;
    state_.scale *= options_.factor;
  }
}

}  // namespace trireme::optim
