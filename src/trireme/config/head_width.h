// How wide a decoder's heads are.
#pragma once

#include <cstdint>

#include "trireme/config/sections/model.h"

namespace trireme::config {

// Channels of a head.
inline std::int64_t head_width(const Model& model) {
  return model.head_dim > 0 ? model.head_dim : model.hidden / model.heads;
}

// Width of attention's result for a token: that of the residual stream, unless the job says otherwise.
inline std::int64_t attended_width(const Model& model) { return model.heads * head_width(model); }

}  // namespace trireme::config
