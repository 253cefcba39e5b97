#include "trireme/base/cpu.h"

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

DType product_type(DType type) {
  const bool widened = type == DType::kF16 || (type == DType::kBF16 && !has_avx512());
  return widened ? DType::kF32 : type;
}

}  // namespace trireme
