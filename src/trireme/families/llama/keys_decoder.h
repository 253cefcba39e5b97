// Llama as decoder of other families.
#pragma once

#include "trireme/config/families.h"

namespace trireme::config {

inline constexpr Decoder kLlamaDecoder{
    .family = "llama", .gated = true, .rotary = true, .llama_keys = true};

}  // namespace trireme::config
