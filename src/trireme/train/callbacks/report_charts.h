// The curves of report.html: what every step and validation measured, over steps.
#pragma once

#include <string>
#include <vector>

#include "trireme/train/callbacks/report.h"

namespace trireme::train {

// Loss with validations and the baseline; learning rate, gradient norm, throughput, waits, memory; every metric of the
// model's own. Steps of events are marked.
std::string charts(const Report& report);

// Median over the steps whose value is finite.
double median_of(const std::vector<StepMetrics>& steps, double StepMetrics::*field);

}  // namespace trireme::train
