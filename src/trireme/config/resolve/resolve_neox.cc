// GPT-NeoX's sizes.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/config/neox.h"
#include "trireme/config/resolve/resolve_family.h"

namespace trireme::config {

void resolve_neox(Job& job, const DatasetFacts& data) {
  resolve_decoder(job.model, data);
  const std::int64_t width = head_width(job.model), rotated = rotated_channels(job);
  if (rotated % 2 == 0) return;
  // The quotient may be a little less than these channels.
  Job even = job;
  even.neox.rotary_fraction = static_cast<double>(rotated + 1) / static_cast<double>(width);
  while (rotated_channels(even) == rotated)
    even.neox.rotary_fraction = std::nextafter(even.neox.rotary_fraction, 2.0);
  fail(ErrorKind::kUsage,
       "neox.rotary_fraction={} of {} channels a head are {}, which is odd; rotary positions turn "
       "pairs, so set neox.rotary_fraction={}",
       job.neox.rotary_fraction, width, rotated, even.neox.rotary_fraction);
}

}  // namespace trireme::config
