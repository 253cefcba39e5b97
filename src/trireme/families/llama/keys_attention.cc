#include "trireme/families/llama/keys_attention.h"

#include <cmath>

#include "trireme/config/head_width.h"

namespace trireme::config {

double score_factor(const Job& job) {
  if (job.llama.attention_multiplier == 0) return 1;
  return job.llama.attention_multiplier * std::sqrt(static_cast<double>(head_width(job.model)));
}

Rope rope_of(const Job& job) { return rope_of(job.model, job.llama.rotary_fraction); }

Rope sliding_rope_of(const Job& job) {
  if (job.llama.sliding_theta == 0) return rope_of(job);
  return {.frequencies =
              partial_frequencies(job.model, job.llama.sliding_theta, job.llama.rotary_fraction)};
}

}  // namespace trireme::config
