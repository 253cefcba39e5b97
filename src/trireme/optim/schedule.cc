#include "trireme/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trireme::optim {

using config::LrSchedule;
namespace {

double decay_steps(const config::Optim& optim, std::int64_t steps) {
  return static_cast<double>(optim.decay_steps > 0 ? optim.decay_steps : steps);
}

// Each from the end of the warm-up on.

double constant_rate(const RateShape& shape, double /*step*/) { return shape.peak; }

double linear_rate(const RateShape& shape, double step) {
  return shape.peak -
         (shape.peak - shape.floor) * (step - shape.warmup) / (shape.decay - shape.warmup);
}

double cosine_rate(const RateShape& shape, double step) {
  const double progress = (step - shape.warmup) / (shape.decay - shape.warmup);
  return shape.floor +
         (shape.peak - shape.floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

double wsd_rate(const RateShape& shape, double step) {
  const double begin = shape.decay - shape.wsd_decay;
  if (step <= begin) return shape.peak;
  return shape.peak - (shape.peak - shape.floor) * (step - begin) / shape.wsd_decay;
}

// Vaswani et al. 2017.
double inverse_sqrt_rate(const RateShape& shape, double step) {
  return std::max(shape.peak * std::sqrt(std::max(shape.warmup, 1.0) / step), shape.floor);
}

// All but those that continue after decay_steps as before.
bool has_end(LrSchedule kind) {
  return kind != LrSchedule::kConstant && kind != LrSchedule::kInverseSqrt;
}

}  // namespace

double rate_at(const RateShape& shape, double step) {
  if (shape.warmup > 0 && step <= shape.warmup)
    return shape.start + (shape.peak - shape.start) * step / shape.warmup;
  if (has_end(shape.kind) && step >= shape.decay) return shape.floor;
#define SCHEDULE(name, key) key##_rate,
  constexpr double (*kRates[])(const RateShape&, double) = {TRIREME_LR_SCHEDULES(SCHEDULE)};
#undef SCHEDULE
  return kRates[static_cast<int>(shape.kind)](shape, step);
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
