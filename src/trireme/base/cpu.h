// What this machine's CPU can do, where that decides a way to go.
#pragma once

#include "trireme/base/dtype.h"

namespace trireme {

// AVX-512 as far as LibTorch and oneDNN ask for it: F, BW, DQ and VL.
bool has_avx512();

// The type in which matrices of `type` are multiplied on this CPU: fp16 and, where oneDNN has no products of it, bf16 are
// widened to fp32 first.
DType product_type(DType type);

}  // namespace trireme
