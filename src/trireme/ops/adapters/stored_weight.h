// Frozen weights of linear layers as bytes (base/quantised.h), which products read as values.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::ops {

// Bytes: [out, in / 64, 36] of nf4, or [out, in + 4] of int8. The number of dimensions shows the form.
inline bool is_stored(const at::Tensor& weight) { return weight.scalar_type() == at::kByte; }

// Its values, [out, in], computed in fp32 and rounded to the type; a tensor of its own.
at::Tensor stored_values(const at::Tensor& weight, at::ScalarType type);

}  // namespace trireme::ops
