// Learning rate, weight decay and momentum as pure functions of the step.
#pragma once

#include <cstdint>

#include "trireme/config/job.h"

namespace trireme::optim {

// A ramp from `start` to `peak` over `warmup` steps, then a decay to `floor`, reached at `decay`. This is Megatron's
// shape: constant after that, warm-up included in `decay`.
struct RateShape {
  config::LrSchedule kind = config::LrSchedule::kCosine;
  double start = 0;
  double peak = 0;
  double floor = 0;
  double warmup = 0;
  double decay = 0;
  double wsd_decay = 0;  // kWsd: steps of linear decay before `decay`; the peak is held until then
};
double rate_at(const RateShape& shape, double step);

// These three are of the update that follows `done` updates, number done + 1 of a run of `steps`; decay_steps 0 is
// `steps`. From decay_steps on they stay where they have come.

// The first update moves by a warmup_steps-th of the way from warmup_lr to lr, and the one numbered decay_steps by
// min_lr. constant ignores min_lr.
double learning_rate(const config::Optim& optim, std::int64_t steps, std::int64_t done);
// Along half a cosine from weight_decay to weight_decay_end, without warm-up.
double weight_decay(const config::Optim& optim, std::int64_t steps, std::int64_t done);
// Along a line from the teacher's momentum to its momentum_end.
double momentum(const config::Jepa& jepa, const config::Optim& optim, std::int64_t steps,
                std::int64_t done);

}  // namespace trireme::optim
