#include "trireme/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace trireme {
namespace {

bool own_loops = true;

}  // namespace

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool multiplies_bf16_in_lanes() { return matrix_unit() == MatrixUnit::kAvx512Bf16; }

DType product_type(DType type) {
  const bool widened = type == DType::kF16 || (type == DType::kBF16 && !has_avx512());
  return widened ? DType::kF32 : type;
}

MatrixUnit matrix_unit() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && ((d >> 22) & 1) != 0;
  if (has_avx512() && amx) return MatrixUnit::kAmx;
  if (has_avx512() && __builtin_cpu_supports("avx512bf16")) return MatrixUnit::kAvx512Bf16;
  if (has_avx512()) return MatrixUnit::kAvx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return MatrixUnit::kAvx2;
#endif
  return MatrixUnit::kOther;
}

std::string_view name(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::kOther: return "no AVX2";
    case MatrixUnit::kAvx2: return "AVX2";
    case MatrixUnit::kAvx512: return "AVX-512";
    case MatrixUnit::kAvx512Bf16: return "AVX-512 BF16";
    case MatrixUnit::kAmx: return "AMX";
  }
  return "";
}

DType fast_type(MatrixUnit unit) {
  return unit == MatrixUnit::kAvx512Bf16 || unit == MatrixUnit::kAmx ? DType::kBF16 : DType::kF32;
}

bool has_own_loops() { return own_loops; }

void use_own_loops(bool use) { own_loops = use; }

}  // namespace trireme
