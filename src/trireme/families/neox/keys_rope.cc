#include "trireme/families/neox/keys_rope.h"

#include "trireme/config/head_width.h"
#include "trireme/config/rope.h"

namespace trireme::config {

std::int64_t rotated_channels(const Job& job) {
  return static_cast<std::int64_t>(static_cast<double>(head_width(job.model)) *
                                   job.neox.rotary_fraction);
}

std::vector<double> neox_frequencies(const Job& job) {
  std::vector<double> frequencies = rope_frequencies(job.model.rope_theta, rotated_channels(job));
  frequencies.resize(static_cast<std::size_t>(head_width(job.model) / 2));
  return frequencies;
}

}  // namespace trireme::config
