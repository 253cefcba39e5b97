// Keys of V-JEPA 2-AC.
#pragma once

#include <cstdint>

namespace trireme::config {

// Numbers of an action and of a state of V-JEPA 2-AC: place, angles and gripper.
inline constexpr std::int64_t kActionNumbers = 7;

// The action-conditioned predictor of V-JEPA 2-AC.
struct Action {
  std::int64_t layers = 24;
  std::int64_t hidden = 1024;
  std::int64_t heads = 16;
  std::int64_t rollout = 2;  // predictions that are made of predictions
  bool operator==(const Action&) const = default;
};

struct JepaAcSections {
  Action action;
  bool operator==(const JepaAcSections&) const = default;
};

}  // namespace trireme::config
