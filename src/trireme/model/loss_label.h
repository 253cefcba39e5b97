// Name and unit of the loss of a family, for all output to people.
#pragma once

#include <string>

#include "trireme/config/job.h"

namespace trireme::model {

// The unit of a loss that a baseline in bits can be compared with.
inline constexpr char kNatsPerToken[] = "nats/token";

struct LossLabel {
  std::string name{};  // "cross-entropy"
  std::string unit{};  // "nats/token"; empty: a sum of terms of different kinds

  // "cross-entropy, nats/token".
  std::string text() const { return unit.empty() ? name : name + ", " + unit; }
  // " nats/token", to append to a number; empty without a unit.
  std::string suffix() const { return unit.empty() ? "" : " " + unit; }
};

// Label of a resolved job.
LossLabel loss_label(const config::Job& job);

}  // namespace trireme::model
