// Features of this machine's CPU that decide between code paths.
#pragma once

#include <string_view>

#include "trireme/base/dtype.h"

namespace trireme {

// AVX-512 as far as LibTorch and oneDNN ask for it: F, BW, DQ and VL.
bool has_avx512();

// Whether this CPU multiplies pairs of bf16 lane by lane (AVX-512 BF16) and has no faster way to multiply them (AMX).
bool multiplies_bf16_in_lanes();

// The type in which matrices of `type` are multiplied on this CPU. fp16 is widened to fp32 first, and so is bf16 where
// oneDNN has no products of it.
DType product_type(DType type);

// The widest instructions that this CPU multiplies matrices with, in rising order of speed in bf16.
enum class MatrixUnit { kOther, kAvx2, kAvx512, kAvx512Bf16, kAmx };
MatrixUnit matrix_unit();
std::string_view name(MatrixUnit unit);  // "AVX-512 BF16"

// bf16 where the unit multiplies it faster than fp32, else fp32.
DType fast_type(MatrixUnit unit);

// Whether CPUs compute with loops of our own. Otherwise they use LibTorch's operators alone, as other devices do, so that
// tests prove without a GPU what GPUs run. Changed before anything is computed.
bool has_own_loops();
void use_own_loops(bool use);

}  // namespace trireme
