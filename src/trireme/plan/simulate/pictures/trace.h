// A step as a trace for Perfetto, chrome://tracing and PyTorch's tools.
#pragma once

#include "trireme/formats/chrome_trace.h"
#include "trireme/plan/simulate/pictures/timeline.h"

namespace trireme::simulate::pictures {

// Adds one process: a row for every lane, a span for every line that takes time with its number and text, and
// the memory as a counter. Transfers that are on their way together get rows beside each other.
void add_process(formats::ChromeTrace& trace, const plan::PlanSet& plan, const Timeline& timeline,
                 int process);

// Processes are ranks; of a rank that has several timelines the later ones count on behind the world.
formats::ChromeTrace trace(const plan::PlanSet& plan, const std::vector<Timeline>& timelines);

}  // namespace trireme::simulate::pictures
