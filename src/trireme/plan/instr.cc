#include "trireme/plan/instr.h"

namespace trireme::plan {

std::string_view name(Verb verb) {
  constexpr std::string_view kNames[] = {
      "load",           "unshard",         "reshard",   "forward", "recompute",    "backward",
      "backward_input", "backward_weight", "send",      "recv",    "reduce_grads", "sync_tied",
      "offload",        "reload",          "grad_norm", "step",    "ema"};
  return kNames[static_cast<std::size_t>(verb)];
}

std::string_view name(Lane lane) {
  constexpr std::string_view kNames[] = {"comp", "dp", "up", "down", "h2d", "d2h"};
  return kNames[static_cast<std::size_t>(lane)];
}

}  // namespace trireme::plan
