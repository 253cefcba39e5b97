// A step as a trace for Perfetto, chrome://tracing and PyTorch's tools.
#pragma once

#include "trireme/formats/chrome_trace.h"
#include "trireme/plan/simulate/pictures/timeline.h"

namespace trireme::simulate::pictures {

// Adds one process: a row for every lane, a span for every line that takes time with its number and text, a counter for
// the memory. Simultaneous transfers get separate rows.
void add_process(formats::ChromeTrace& trace, const plan::PlanSet& plan, const Timeline& timeline,
                 int process);

// Processes are ranks; further timelines of a rank have numbers after the world's.
formats::ChromeTrace trace(const plan::PlanSet& plan, const std::vector<Timeline>& timelines);

}  // namespace trireme::simulate::pictures
