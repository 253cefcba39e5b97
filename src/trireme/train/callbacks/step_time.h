// The step time of a run as it was forecast and as it was measured.
#pragma once

#include <string>

#include "trireme/train/callbacks.h"

namespace trireme::train {

// " (380.0 to 445.0)" in ms; empty where no band is known.
std::string band_text(const RunInfo& info);
// The forecast next to the measurement, and a remedy if they differ.
std::string forecast_line(const RunInfo& info, double step_s);
// ", inside" or ", outside" the band; empty where none is known.
std::string verdict(const RunInfo& info, double step_s);

}  // namespace trireme::train
