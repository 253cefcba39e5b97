// A step as a self-contained picture in SVG.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/simulate/pictures/timeline.h"

namespace trireme::simulate::pictures {

struct SvgText {
  std::string title{};
  std::string subtitle{};
};

// A row for each timeline, with one axis in milliseconds for all. Boxes have the numbers of micro-batches, where they
// fit; strips show the lanes of communication, with the memory below. Later chunks of a rank are paler. Boxes show a
// description under the pointer.
std::string svg(const plan::PlanSet& plan, const std::vector<Timeline>& timelines,
                const SvgText& text);

}  // namespace trireme::simulate::pictures
