#include "trireme/ops/kernels/cpu/pointwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/ops/kernels/cpu/pointwise.cc"
#include <hwy/foreach_target.h>

#include "trireme/ops/kernels/cpu/dispatch-inl.h"
#include "trireme/ops/kernels/cpu/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::ops::kernels::HWY_NAMESPACE {

// 0.5 x (1 + tanh u) = x sigmoid(2u) with u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks & Gimpel 2016).
constexpr double kTwoRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
constexpr double kCubic = 0.044715;

template <typename T>
HWY_INLINE Vector<T> gelu_gate(Vector<T> x) {
  const auto square = hn::Mul(x, x);
  constexpr double kFactor = -kTwoRoot * kExponent<T>;
  const auto inner = hn::MulAdd(square, fill<T>(kFactor * kCubic), fill<T>(kFactor));
  return share_of_one<T>(hn::Mul(x, inner));
}

template <typename T>
void gelu(const T* x, T* y, std::int64_t count) {
  map(
      x, y, count,
      [](Vector<T> in) __attribute__((always_inline)) { return hn::Mul(in, gelu_gate<T>(in)); });
}

// Slope of gelu: gate + x gate (1 - gate) slope of 2u, with out = x gate.
template <typename T>
HWY_INLINE Vector<T> gelu_rise(Vector<T> x, Vector<T> gate, Vector<T> out) {
  const Vector<T> slope =
      hn::MulAdd(hn::Mul(x, x), fill<T>(3 * kTwoRoot * kCubic), fill<T>(kTwoRoot));
  return hn::MulAdd(hn::NegMulAdd(out, gate, out), slope, gate);
}

template <typename T>
void gelu_backward(const T* x, const T* dy, T* dx, T* y, std::int64_t count) {
  over<T>(count, [&](auto at) {
    const Vector<T> in = at.load(x);
    const Vector<T> gate = gelu_gate<T>(in);
    const Vector<T> out = hn::Mul(in, gate);
    at.store(dx, hn::Mul(at.load(dy), gelu_rise<T>(in, gate, out)));
    at.store(y, out);
  });
}

template <typename T>
void swiglu(const T* gate, const T* up, T* y, std::int64_t count) {
  over<T>(count, [&](auto at) {
    const Vector<T> in = at.load(gate);
    at.store(y, hn::Mul(hn::Mul(in, sigmoid<T>(in)), at.load(up)));
  });
}

template <typename T>
void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y,
                     std::int64_t count) {
  over<T>(count, [&](auto at) {
    const Vector<T> in = at.load(gate);
    const Vector<T> other = at.load(up);
    const Vector<T> out = at.load(dy);
    const Vector<T> s = sigmoid<T>(in);
    const Vector<T> silu = hn::Mul(in, s);
    // s + x s (1 - s)
    const Vector<T> rise = hn::Add(s, hn::NegMulAdd(silu, s, silu));
    at.store(dgate, hn::Mul(hn::Mul(out, other), rise));
    at.store(dup, hn::Mul(out, silu));
    at.store(y, hn::Mul(silu, other));
  });
}

template <typename T>
void geglu(const T* gate, const T* up, T* y, std::int64_t count) {
  over<T>(count, [&](auto at) {
    const Vector<T> in = at.load(gate);
    at.store(y, hn::Mul(hn::Mul(in, gelu_gate<T>(in)), at.load(up)));
  });
}

template <typename T>
void geglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y,
                    std::int64_t count) {
  over<T>(count, [&](auto at) {
    const Vector<T> in = at.load(gate), other = at.load(up), out = at.load(dy);
    const Vector<T> share = gelu_gate<T>(in), gelu = hn::Mul(in, share);
    at.store(dgate, hn::Mul(hn::Mul(out, other), gelu_rise<T>(in, share, gelu)));
    at.store(dup, hn::Mul(out, gelu));
    at.store(y, hn::Mul(gelu, other));
  });
}

template <typename T>
void rotate(const Rotation<T>& rotation, const T* x, T* y, std::int64_t first_row,
            std::int64_t rows) {
  const std::int64_t half = rotation.width / 2;
  const Vector<T> direction = fill<T>(static_cast<Wide<T>>(rotation.direction));
  for (std::int64_t r = first_row; r < first_row + rows; ++r) {
    const Wide<T>* const cosines = rotation.cosines + r % rotation.positions * half;
    const Wide<T>* const sines = rotation.sines + r % rotation.positions * half;
    for (std::int64_t head = 0; head < rotation.heads; ++head) {
      const T* const in = x + (r * rotation.heads + head) * rotation.width;
      T* const out = y + (r * rotation.heads + head) * rotation.width;
      over<T>(half, [&](auto at) {
        const Vector<T> a = at.load(in);
        const Vector<T> b = at.load(in + half);
        const Vector<T> cosine = at.load(cosines);
        const Vector<T> sine = hn::Mul(direction, at.load(sines));
        at.store(out, hn::NegMulAdd(b, sine, hn::Mul(a, cosine)));
        at.store(out + half, hn::MulAdd(a, sine, hn::Mul(b, cosine)));
      });
    }
  }
}

template <typename T>
void rotate_pairs(const PairRotation<T>& rotation, const T* x, T* y, std::int64_t first_row,
                  std::int64_t rows) {
  const std::int64_t all = rotation.heads * rotation.width;
  const Vector<T> sign = hn::OddEven(fill<T>(1), fill<T>(-1));
  for (std::int64_t r = first_row; r < first_row + rows; ++r) {
    const std::int64_t place = r % rotation.positions * rotation.width;
    for (std::int64_t head = 0; head < rotation.heads; ++head) {
      const T* const in = x + r * rotation.stride + head * rotation.width;
      T* const out = y + r * all + head * rotation.width;
      over<T>(rotation.width, [&](auto at) {
        const Vector<T> own = at.load(in);
        const Vector<T> sine = hn::Mul(sign, at.load(rotation.sines + place));
        const Vector<T> other = rotation.gradient ? hn::Reverse2(Tag<T>(), hn::Mul(own, sine))
                                                  : hn::Mul(hn::Reverse2(Tag<T>(), own), sine);
        at.store(out, hn::Add(hn::Mul(own, at.load(rotation.cosines + place)), other));
      });
    }
  }
}

template <typename T>
void dropout(const Keep& keep, double scale, std::int64_t place, const T* x, T* y,
             std::int64_t count) {
  const Wide<T> factor = static_cast<Wide<T>>(scale);
  for (std::int64_t done = 0; done < count;) {
    const std::uint32_t row = keep.row(static_cast<std::uint64_t>((place + done) / kPlacesOfKey));
    const std::int64_t column = (place + done) % kPlacesOfKey;
    const std::int64_t part = std::min(count - done, kPlacesOfKey - column);
    over<T>(part, [&](auto at) {
      at.store(y + done, hn::Mul(at.load(x + done), kept<T>(keep, row, column + at.i, factor)));
    });
    done += part;
  }
}

template <typename T>
PointwiseKernels<T> make() {
  return {.gelu = gelu<T>,
          .gelu_backward = gelu_backward<T>,
          .swiglu = swiglu<T>,
          .swiglu_backward = swiglu_backward<T>,
          .geglu = geglu<T>,
          .geglu_backward = geglu_backward<T>,
          .rotate = rotate<T>,
          .rotate_pairs = rotate_pairs<T>,
          .dropout = dropout<T>};
}
TRIREME_KERNELS_OF_TARGET(PointwiseKernels, pointwise_kernels)

}  // namespace trireme::ops::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::ops::kernels {
TRIREME_KERNELS(PointwiseKernels, pointwise_kernels)
}  // namespace trireme::ops::kernels
#endif
