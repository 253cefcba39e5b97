// Several probes at once on the features of one frozen tower.
#pragma once

#include <string>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::config {

// A probe's factors of optim.lr and optim.weight_decay.
struct ProbeFactors {
  double lr = 1;
  double weight_decay = 1;
};

// Factors of every probe: each of probe.lr with each of probe.weight_decay, the latter changing fastest; empty if both
// are empty, for one probe. Throws Error{kUsage} naming the key.
std::vector<ProbeFactors> probe_factors(const Job& job);

// Names of the probes' accuracies: "accuracy" for one probe. For several "accuracy_lr0.001" with the rate of each, and
// "accuracy_lr0.001_wd0.1" with its decay if probe.weight_decay has any.
std::vector<std::string> probe_metrics(const Job& job);

// The evaluation's name as V-JEPA 2 has it, "16x2x3": frames of a clip, segments of a sample, views of a segment.
std::string probe_protocol(const Job& job);

// Names in validation of the metrics that a model counts: for a probe "accuracy_16x2x3" and "accuracy_16x2x3_lr0.001".
std::vector<std::string> held_out_metrics(const Job& job, std::vector<std::string> metrics);

// Throws Error{kUsage} where probes would report under one name.
void check_probe_names(const Job& job);

}  // namespace trireme::config
