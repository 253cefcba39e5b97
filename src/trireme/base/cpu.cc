#include "trireme/base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace trireme {

bool has_avx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("fma");
#else
  return false;
#endif
}

bool multiplies_bf16_in_lanes() {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool amx = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && ((d >> 22) & 1) != 0;
  return has_avx512() && __builtin_cpu_supports("avx512bf16") && !amx;
#else
  return false;
#endif
}

DType product_type(DType type) {
  const bool widened = type == DType::kF16 || (type == DType::kBF16 && !has_avx512());
  return widened ? DType::kF32 : type;
}

}  // namespace trireme
