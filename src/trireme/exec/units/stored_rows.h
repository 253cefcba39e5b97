// Bytes of parameters in a stored form, from the values of their matrices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/model/spec.h"

namespace trireme::exec {

// All bytes of the parameter, flat, from its matrix's elements in fp32. Throws Error{kData} for values that are not
// finite.
at::Tensor stored_rows(const model::ParamSpec& param, const at::Tensor& values);
// The same from the matrix as it begins, with the draws that it has in full.
at::Tensor initial_rows(const model::ParamSpec& param, std::uint64_t seed);

}  // namespace trireme::exec
