// Elements of tensors as numbers, without tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/base/dtype.h"

namespace trireme::convert {

// The index-th element; exact, except for large int64.
double value_at(std::span<const std::byte> bytes, DType type, std::int64_t index);

}  // namespace trireme::convert
