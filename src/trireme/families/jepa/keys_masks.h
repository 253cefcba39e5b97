// The blocks of tokens that V-JEPA's two masks of a clip hide.
#pragma once

#include <array>
#include <cstdint>

#include "trireme/config/job.h"

namespace trireme::config {

struct MaskRule {
  std::int64_t blocks = 0;
  double scale = 0;  // share of a frame's area that a block covers
};

// jepa.masks: the short-range and the long-range mask, "8x0.15,2x0.7". Throws Error{kUsage} for text of another form.
std::array<MaskRule, 2> mask_rules(const Jepa& jepa);

}  // namespace trireme::config
