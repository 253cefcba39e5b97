// Learning rate as a pure function of the step.
#pragma once

#include <cstdint>

#include "trireme/config/job.h"

namespace trireme::optim {

// A ramp from `start` to `peak` over `warmup` steps, then a decay to `floor`, reached at `decay`
// (Megatron's shape: constant after that, warm-up included in `decay`).
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

// The rate of the update that follows `done` updates: rate_at(done + 1) from a start of 0, so the
// first update moves by lr / warmup_steps and the one numbered decay_steps by min_lr. decay_steps 0 is
// `steps`. constant ignores min_lr.
double learning_rate(const config::Optim& optim, std::int64_t steps, std::int64_t done);

}  // namespace trireme::optim
