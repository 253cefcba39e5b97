// Intervals of time, as an interface: what decides by time is tested without waiting.
#pragma once

#include <chrono>

namespace trireme::os {

class Clock {
 public:
  virtual ~Clock() = default;
  // Seconds since some moment; never decreases, even if the time of day is changed.
  virtual double seconds() const = 0;
};

class MonotonicClock final : public Clock {
 public:
  double seconds() const override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace trireme::os
