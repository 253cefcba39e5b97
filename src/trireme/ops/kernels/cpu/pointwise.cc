#include "trireme/ops/kernels/cpu/pointwise.h"

namespace trireme::ops::kernels {
namespace {

// 0.5 x (1 + tanh u) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks & Gimpel 2016).
constexpr double kTwoRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;

template <typename A>
TRIREME_SIMD_INLINE A gelu_gate(A x) {
  return sigmoid(A(kTwoRoot) * (x + A(kCubic) * (x * x * x)));
}

}  // namespace

template <typename T>
TRIREME_SIMD_CLONES void gelu(const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Wide<T> in = widen(x[i]);
    store(y + i, in * gelu_gate(in));
  }
}

template <typename T>
TRIREME_SIMD_CLONES void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count) {
  using A = Wide<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const A in = widen(x[i]);
    const A gate = gelu_gate(in);
    const A slope = A(kTwoRoot) * (A(1) + A(3 * kCubic) * (in * in));
    store(dx + i, widen(dy[i]) * (gate + in * gate * (A(1) - gate) * slope));
  }
}

template <typename T>
TRIREME_SIMD_CLONES void swiglu(const T* gate, const T* up, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Wide<T> in = widen(gate[i]);
    store(y + i, in * sigmoid(in) * widen(up[i]));
  }
}

template <typename T>
TRIREME_SIMD_CLONES void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup,
                                         std::int64_t count) {
  using A = Wide<T>;
  for (std::int64_t i = 0; i < count; ++i) {
    const A in = widen(gate[i]);
    const A out = widen(dy[i]);
    const A s = sigmoid(in);
    store(dgate + i, out * widen(up[i]) * (s + in * s * (A(1) - s)));
    store(dup + i, out * in * s);
  }
}

template <typename T>
TRIREME_SIMD_CLONES void rotate(const Rotation<T>& rotation, const T* x, T* y,
                                std::int64_t first_row, std::int64_t rows) {
  using A = Wide<T>;
  const std::int64_t half = rotation.width / 2;
  const A direction = static_cast<A>(rotation.direction);
  for (std::int64_t r = first_row; r < first_row + rows; ++r) {
    const A* const cosines = rotation.cosines + r % rotation.positions * half;
    const A* const sines = rotation.sines + r % rotation.positions * half;
    for (std::int64_t head = 0; head < rotation.heads; ++head) {
      const T* const in = x + (r * rotation.heads + head) * rotation.width;
      T* const out = y + (r * rotation.heads + head) * rotation.width;
      for (std::int64_t i = 0; i < half; ++i) {
        const A a = widen(in[i]);
        const A b = widen(in[i + half]);
        const A sine = direction * sines[i];
        store(out + i, a * cosines[i] - b * sine);
        store(out + i + half, b * cosines[i] + a * sine);
      }
    }
  }
}

Keep Keep::at_rate(std::uint64_t key, double p) {
  return {.key = key, .threshold = static_cast<std::uint32_t>(p * 4294967296.0)};
}

template <typename T>
TRIREME_SIMD_CLONES void dropout(const Keep& keep, double scale, const T* x, T* y,
                                 std::int64_t width, std::int64_t begin, std::int64_t end) {
  using A = Wide<T>;
  const A factor = static_cast<A>(scale);
  for (std::int64_t r = begin; r < end; ++r) {
    const std::uint32_t row = keep.row(static_cast<std::uint64_t>(r));
    for (std::int64_t i = 0; i < width; ++i) {
      const A kept = keep(row, static_cast<std::uint32_t>(i)) ? factor : A(0);
      store(y + r * width + i, widen(x[r * width + i]) * kept);
    }
  }
}

#define TRIREME_INSTANTIATE(T)                                                            \
  template void gelu<T>(const T*, T*, std::int64_t);                                      \
  template void gelu_backward<T>(const T*, const T*, T*, std::int64_t);                   \
  template void swiglu<T>(const T*, const T*, T*, std::int64_t);                          \
  template void swiglu_backward<T>(const T*, const T*, const T*, T*, T*, std::int64_t);   \
  template void rotate<T>(const Rotation<T>&, const T*, T*, std::int64_t, std::int64_t);  \
  template void dropout<T>(const Keep&, double, const T*, T*, std::int64_t, std::int64_t, \
                           std::int64_t);
TRIREME_INSTANTIATE(double)
TRIREME_INSTANTIATE(float)
TRIREME_INSTANTIATE(c10::BFloat16)
#undef TRIREME_INSTANTIATE

}  // namespace trireme::ops::kernels
