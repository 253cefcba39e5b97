// Several probes at once on the features of one frozen tower.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// What a probe multiplies optim.lr and optim.weight_decay by.
struct ProbeFactors {
  double lr = 1;
  double weight_decay = 1;
};

// Of every probe: each factor of probe.lr with each of probe.weight_decay, the latter changing fastest; none where both are
// empty, for one probe. Throws Error{kUsage} naming the key.
std::vector<ProbeFactors> probe_factors(const Job& job);

// Names of the probes' shares of right answers: "accuracy", or of several "accuracy_lr0.001" with the rate of each, and
// "accuracy_lr0.001_wd0.1" with its decay where probe.weight_decay has any.
std::vector<std::string> probe_metrics(const Job& job);

// Throws Error{kUsage} where probes would not train as each would alone.
void check_probes(const Job& job);

}  // namespace trireme::config
