// Round: what merging islands costs, over the steps after which every fragment has been merged once.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/plan/plan.h"

namespace trireme::simulate {

struct Round {
  std::int64_t steps = 0;
  double step_s = 0;      // of a step that merges nothing
  double merging_s = 0;   // of a round, in addition: what a delay does not hide
  double sent_bytes = 0;  // by one rank to other islands in a round
  double utilisation() const {
    const double training = static_cast<double>(steps) * step_s;
    return training / (training + merging_s);
  }
};

// Nothing for plans without islands, or with a schedule of a file. `step_seconds` prices plans of the kinds of steps.
std::optional<Round> round_of(const plan::PlanSet& plan,
                              const std::function<double(const plan::PlanSet&)>& step_seconds);
std::string round_text(const Round& round);

// The delay of outer steps that hides their exchanges: 1.1 times the seconds of the longest fragment, in whole steps,
// from 1 to below half a round.
struct HidingDelay {
  int steps = 1;
  double fragment_s = 0, step_s = 0;
};
// As above for plans whose outer steps have a delay, of any length.
std::optional<HidingDelay> hiding_delay(
    const plan::PlanSet& plan, const std::function<double(const plan::PlanSet&)>& step_seconds);
std::string delay_text(const HidingDelay& delay);

}  // namespace trireme::simulate
