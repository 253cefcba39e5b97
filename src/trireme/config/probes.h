// Several probes at once on the features of one frozen tower.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// What each probe multiplies optim.lr by, as probe.lr lists it; empty where there is one probe that has none of its own.
// Throws Error{kUsage} naming the key.
std::vector<double> probe_rates(const Job& job);

// Names of the probes' shares of right answers: "accuracy", or of several "accuracy_lr0.001" with the rate of each.
std::vector<std::string> probe_metrics(const Job& job);

// Throws Error{kUsage} where probes would not train as each would alone.
void check_probes(const Job& job);

}  // namespace trireme::config
