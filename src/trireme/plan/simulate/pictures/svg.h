// A step as a picture, in SVG that needs nothing beside it.
#pragma once

#include <string>
#include <vector>

#include "trireme/plan/simulate/pictures/timeline.h"

namespace trireme::simulate::pictures {

struct SvgText {
  std::string title{};
  std::string subtitle{};
};

// A row for each timeline: boxes with the numbers of micro-batches, where they fit, strips for the lanes of
// communication, the memory below; one axis in milliseconds for all. Later chunks of a rank are paler. Boxes
// tell what they are when pointed at.
std::string svg(const plan::PlanSet& plan, const std::vector<Timeline>& timelines,
                const SvgText& text);

}  // namespace trireme::simulate::pictures
