#include "trireme/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trireme/base/error.h"

namespace trireme::optim {

using config::LrSchedule;
namespace {

double decay_steps(const config::Optim& optim, std::int64_t steps) {
  return static_cast<double>(optim.decay_steps > 0 ? optim.decay_steps : steps);
}

}  // namespace

double rate_at(const RateShape& shape, double step) {
  if (shape.warmup > 0 && step <= shape.warmup)
    return shape.start + (shape.peak - shape.start) * step / shape.warmup;
  if (shape.kind == LrSchedule::kConstant) return shape.peak;
  if (step >= shape.decay) return shape.floor;
  const double range = shape.peak - shape.floor;
  switch (shape.kind) {
    case LrSchedule::kLinear:
      return shape.peak - range * (step - shape.warmup) / (shape.decay - shape.warmup);
    case LrSchedule::kCosine: {
      const double progress = (step - shape.warmup) / (shape.decay - shape.warmup);
      return shape.floor + range * 0.5 * (1 + std::cos(std::numbers::pi * progress));
    }
    case LrSchedule::kWsd: {
      const double begin = shape.decay - shape.wsd_decay;
      return step <= begin ? shape.peak : shape.peak - range * (step - begin) / shape.wsd_decay;
    }
    case LrSchedule::kConstant: break;
  }
  TRIREME_CHECK(false, "schedule {} has no rate", static_cast<int>(shape.kind));
}

double learning_rate(const config::Optim& optim, std::int64_t steps, std::int64_t done) {
  const double decay = decay_steps(optim, steps);
  return rate_at({.kind = optim.schedule,
                  .start = optim.warmup_lr,
                  .peak = optim.lr,
                  .floor = optim.min_lr,
                  .warmup = static_cast<double>(optim.warmup_steps),
                  .decay = decay,
                  .wsd_decay = optim.wsd_decay_fraction * decay},
                 static_cast<double>(done + 1));
}

double weight_decay(const config::Optim& optim, std::int64_t steps, std::int64_t done) {
  if (!optim.weight_decay_end) return optim.weight_decay;
  return rate_at({.kind = LrSchedule::kCosine,
                  .peak = optim.weight_decay,
                  .floor = *optim.weight_decay_end,
                  .decay = decay_steps(optim, steps)},
                 static_cast<double>(done + 1));
}

double momentum(const config::Jepa& jepa, const config::Optim& optim, std::int64_t steps,
                std::int64_t done) {
  if (!jepa.momentum_end) return jepa.momentum;
  return rate_at({.kind = LrSchedule::kLinear,
                  .peak = jepa.momentum,
                  .floor = *jepa.momentum_end,
                  .decay = decay_steps(optim, steps)},
                 static_cast<double>(done + 1));
}

}  // namespace trireme::optim
