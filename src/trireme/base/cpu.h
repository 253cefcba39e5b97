// What this machine's CPU can do, where that decides a way to go.
#pragma once

#include "trireme/base/dtype.h"

namespace trireme {

// AVX-512 as far as LibTorch and oneDNN ask for it: F, BW, DQ and VL.
bool has_avx512();

// Whether this CPU multiplies pairs of bf16 lane by lane (AVX-512 BF16) and has no faster way to multiply them (AMX).
bool multiplies_bf16_in_lanes();

// The type in which matrices of `type` are multiplied on this CPU: fp16 and, where oneDNN has no products of it, bf16 are
// widened to fp32 first.
DType product_type(DType type);

}  // namespace trireme
