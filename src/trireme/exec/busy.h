// Busy: how long a rank has computed, without waiting for others.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "trireme/plan/instr.h"

namespace trireme::exec {

inline constexpr std::size_t kBusyKinds = 4;
inline constexpr std::array<std::string_view, kBusyKinds> kBusyNames = {"load", "forward",
                                                                        "backward", "update"};

// Seconds by kind; between two exchanges of gradient norms, so that an update counts with the step after it.
using Busy = std::array<double, kBusyKinds>;

// Which of them a line counts as; kBusyKinds: none.
constexpr std::size_t busy_kind(plan::Verb verb) {
  switch (verb) {
    case plan::Verb::kLoad: return 0;
    case plan::Verb::kForward:
    case plan::Verb::kRecompute: return 1;
    case plan::Verb::kBackward:
    case plan::Verb::kBackwardInput:
    case plan::Verb::kBackwardWeight: return 2;
    case plan::Verb::kUpdateMatrices:
    case plan::Verb::kStep: return 3;
    default: return kBusyKinds;
  }
}

}  // namespace trireme::exec
