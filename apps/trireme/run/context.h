// Tokens that a model reads of a text, which decide how it turns queries and keys.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/config/job.h"

namespace trireme::app {

// Length of pretraining, up to which frequencies of longrope are those of short texts; 0 for other kinds.
std::int64_t short_tokens(const config::Job& job);

// Context of a text of `prompt` tokens that grows by `tokens`. Without a prompt: of a conversation, whose length is not
// known yet. Throws Error{kUsage} for a text that grows beyond short_tokens(): keys in the cache would have turned by the
// frequencies of short texts.
std::int64_t context_of(const config::Job& job, std::optional<std::int64_t> prompt,
                        std::int64_t tokens);

}  // namespace trireme::app
