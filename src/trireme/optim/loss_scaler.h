// LossScaler: the factor that keeps gradients inside the range of fp16, found while training.
#pragma once

#include <cstdint>

namespace trireme::optim {

struct LossScaleOptions {
  double start = 65536;
  std::int64_t window = 1000;  // steps without overflow before the scale is raised
  double factor = 2;
  std::int64_t hysteresis = 2;  // overflows before it is lowered
  double floor = 1;
};

// DeepSpeed's rule. An overflow counts `hysteresis` down, to 1; at 1 it divides the scale by `factor`, to `floor` at
// least. A step that ends a window since the last overflow multiplies the scale and restores the hysteresis.
class LossScaler {
 public:
  struct State {
    double scale = 1;
    std::int64_t steps = 0;
    std::int64_t last_overflow = -1;  // the step, from 0
    std::int64_t hysteresis = 1;      // what is left
    bool operator==(const State&) const = default;
  };

  explicit LossScaler(const LossScaleOptions& options)
      : options_(options), state_{.scale = options.start, .hysteresis = options.hysteresis} {}

  double scale() const { return state_.scale; }
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

  // After every step. Throws Error{kNonFinite} where the scale would have to be lowered below its floor; `run_step` is
  // the run's number of this step, which is said then.
  void update(bool overflow, std::int64_t run_step);

 private:
  LossScaleOptions options_;
  State state_;
};

}  // namespace trireme::optim
