#include "apps/trireme/run/context.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/families.h"
#include "trireme/config/rope.h"
#include "trireme/families/llama/keys_attention.h"

namespace trireme::app {

std::int64_t short_tokens(const config::Job& job) {
  const config::RopeScaling scaling = config::parse_rope_scaling(job.model.rope_scaling);
  return scaling.kind == config::RopeScaling::Kind::kLongRope
             ? static_cast<std::int64_t>(scaling.original)
             : 0;
}

namespace {

// Positions of a published model that was fine-tuned in shorter rows, as far as these turned its queries and keys in the
// same way; else those of the rows.
std::int64_t most_context(const config::Job& job) {
  const Path weights = job.model.weights;
  const config::FamilyInfo& family = config::info(job);
  const bool turns = family.chain && config::is_rotary(job);
  const std::int64_t trained = job.model.seq_len;
  if (!turns || !convert::is_hugging_face(weights)) return trained;
  const std::int64_t published =
      config::parse_job(convert::manifest_of_weights(weights).job, weights.string()).model.seq_len;
  const config::Rope here = config::rope_of(job);
  for (const std::int64_t tokens : {published, std::min(published, short_tokens(job))}) {
    config::Job longer = job;
    longer.model.seq_len = tokens;
    const config::Rope there = config::rope_of(longer);
    if (tokens > trained && here.frequencies == there.frequencies &&
        here.amplitude == there.amplitude)
      return tokens;
  }
  return trained;
}

}  // namespace

std::int64_t context_of(const config::Job& job, std::optional<std::int64_t> prompt,
                        std::int64_t tokens) {
  const std::int64_t most = most_context(job), shorter = short_tokens(job);
  if (shorter == 0 || most <= shorter) return most;
  if (!prompt || *prompt + tokens <= shorter) return shorter;
  if (*prompt > shorter) return most;
  fail(ErrorKind::kUsage,
       "a prompt of {} tokens and --tokens {} cross the {} tokens at which longrope "
       "(model.rope_scaling) changes its frequencies; needs a text that stays on one side: choose "
       "--tokens {} or less, or a prompt of more than {} tokens",
       *prompt, tokens, shorter, shorter - *prompt, shorter);
}

}  // namespace trireme::app
