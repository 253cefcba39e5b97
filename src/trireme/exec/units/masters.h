// Master weights in fp32 that are kept in two halves, of which the upper one is the parameter in bf16.
#pragma once

#include <ATen/core/Tensor.h>

namespace trireme::exec {

// A parameter in bf16 is its master in fp32 rounded to the nearest, halfway cases away from zero. Then what the master
// has beside it is a signed number of 16 bits, master = (parameter << 16) + rest, bits taken as integers, and both
// together take 4 bytes and not 6. A master that is not a number stays none, with other bits perhaps.
//
// All tensors are flat, equally long and on one device: masters fp32, params bf16, rests int16.
void split_masters(const at::Tensor& masters, const at::Tensor& params, const at::Tensor& rests);
void join_masters(const at::Tensor& params, const at::Tensor& rests, const at::Tensor& masters);

// Rounds masters to parameters as split_masters() does, whether or not halves are kept; other types are converted.
void round_masters(const at::Tensor& masters, const at::Tensor& params);

}  // namespace trireme::exec
