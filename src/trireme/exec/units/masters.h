// Master weights in fp32 that are kept in two parts, of which the upper one is the parameter in bf16.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::exec {

// A parameter in bf16 is its master in fp32 rounded to the nearest, halfway cases away from zero. The rest of the
// master is a signed number of 16 bits: master = (parameter << 16) + rest, with bits taken as integers. Both together
// take 4 bytes and not 6. A NaN in the master stays a NaN, perhaps with other bits.
//
// All tensors are flat, equally long and on one device: masters fp32, params bf16, rests int16.
void split_masters(const at::Tensor& masters, const at::Tensor& params, const at::Tensor& rests);
void join_masters(const at::Tensor& params, const at::Tensor& rests, const at::Tensor& masters);

// Rounds masters to parameters like split_masters(), whether or not masters are split; other types are converted.
void round_masters(const at::Tensor& masters, const at::Tensor& params);

}  // namespace trireme::exec
