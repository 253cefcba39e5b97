#include "trireme/comm/tree_sum.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

// Small enough that one block per tree level stays in the first cache level.
constexpr std::int64_t kBlock = 512;

struct BF16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

// Type in which a stored type is added; integers use unsigned because wrapping must be defined.
template <typename T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<BF16> {
  using type = float;
};
template <>
struct Accumulator<F16> {
  using type = float;
};

inline float widen(BF16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline float widen(F16 x) { return c10::detail::fp16_ieee_to_fp32_value(x.bits); }
template <typename T>
inline T widen(T x) {
  return x;
}

template <typename T>
inline T narrow(typename Accumulator<T>::type x) {
  if constexpr (std::is_same_v<T, BF16>) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
    const std::uint32_t quiet_nan = (bits >> 16) | 0x40u;
    return {static_cast<std::uint16_t>(x != x ? quiet_nan : rounded)};
  } else if constexpr (std::is_same_v<T, F16>) {
    return {c10::detail::fp16_ieee_from_fp32_value(x)};
  } else {
    return x;
  }
}

struct Add {
  template <typename A>
  static A apply(A a, A b) {
    return static_cast<A>(a + b);
  }
};

struct Max {
  template <typename A>
  static A apply(A a, A b) {
    return (a > b || a != a) ? a : b;
  }
};

// Plain pointers without aliasing, so that the compiler vectorises.
template <typename Op, typename A>
void combine(A* __restrict dst, const A* __restrict src, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = Op::apply(dst[i], src[i]);
}

template <typename Op, typename T, typename A>
void combine_pair(A* __restrict dst, const T* a, const T* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dst[i] = Op::apply(widen(a[i]), widen(b[i]));
}

// dst = the tree over one block of the leaves.
template <typename Op, typename T, typename A>
void reduce_block(A* dst, std::span<const void* const> leaves, std::int64_t offset,
                  std::int64_t count) {
  const auto leaf = [&](std::size_t i) { return static_cast<const T*>(leaves[i]) + offset; };
  if (leaves.size() == 1) {
    for (std::int64_t i = 0; i < count; ++i) dst[i] = widen(leaf(0)[i]);
  } else if (leaves.size() == 2) {
    combine_pair<Op>(dst, leaf(0), leaf(1), count);
  } else {
    const std::size_t left = std::bit_floor(leaves.size() - 1);
    A right[kBlock];
    reduce_block<Op, T>(dst, leaves.first(left), offset, count);
    reduce_block<Op, T>(right, leaves.subspan(left), offset, count);
    combine<Op>(dst, right, count);
  }
}

template <typename Op, typename T, typename Out>
void reduce_all(std::span<void* const> outs, std::span<const void* const> leaves,
                std::int64_t count, std::size_t divisor) {
  using A = typename Accumulator<T>::type;
  A block[kBlock];
  Out narrowed[kBlock];
  for (std::int64_t offset = 0; offset < count; offset += kBlock) {
    const std::int64_t n = std::min(kBlock, count - offset);
    reduce_block<Op, T>(block, leaves, offset, n);
    if constexpr (std::is_floating_point_v<A>) {
      if (divisor > 1)
        for (std::int64_t i = 0; i < n; ++i) block[i] /= static_cast<A>(divisor);
    }
    for (std::int64_t i = 0; i < n; ++i) narrowed[i] = narrow<Out>(block[i]);
    for (void* out : outs)
      std::memcpy(static_cast<Out*>(out) + offset, narrowed,
                  static_cast<std::size_t>(n) * sizeof(Out));
  }
}

// Calls visit with a value of the type to add in; Signed decides int or unsigned for integers.
template <typename Visit>
void with_type(DType type, bool is_signed, Visit visit) {
  switch (type) {
    case DType::kF64: return visit(double{});
    case DType::kF32: return visit(float{});
    case DType::kBF16: return visit(BF16{});
    case DType::kF16: return visit(F16{});
    case DType::kI64: return is_signed ? visit(std::int64_t{}) : visit(std::uint64_t{});
    case DType::kI32: return is_signed ? visit(std::int32_t{}) : visit(std::uint32_t{});
    case DType::kI16: return is_signed ? visit(std::int16_t{}) : visit(std::uint16_t{});
    case DType::kU8: return visit(std::uint8_t{});
    default:
      fail(ErrorKind::kInternal,
           "cannot add {}: needs fp64, fp32, bf16, fp16, int64, int32, int16 or uint8", name(type));
  }
}

// Calls visit with a value of each of the reduction's types.
template <typename Visit>
void with_types(const Reduction& reduction, Visit visit) {
  if (reduction.from == DType::kBF16 && reduction.to == DType::kF32) return visit(BF16{}, float{});
  if (reduction.from == DType::kF32 && reduction.to == DType::kBF16) return visit(float{}, BF16{});
  if (reduction.from == DType::kF16 && reduction.to == DType::kF32) return visit(F16{}, float{});
  if (reduction.from == DType::kF32 && reduction.to == DType::kF16) return visit(float{}, F16{});
  TRIREME_CHECK(reduction.from == reduction.to, "a tree of {} becomes no {}", name(reduction.from),
                name(reduction.to));
  with_type(reduction.from, reduction.max, [&](auto example) { visit(example, example); });
}

}  // namespace

bool is_integral(DType type) {
  return type == DType::kI64 || type == DType::kI32 || type == DType::kI16 || type == DType::kU8;
}

void add_into(void* dst, const void* src, std::int64_t count, DType type) {
  const void* leaves[] = {dst, src};
  tree_reduce(dst, leaves, count, type, Reduce::kSum);
}

void tree_reduce(void* out, std::span<const void* const> leaves, std::int64_t count, DType type,
                 Reduce reduce) {
  tree_reduce(std::span(&out, 1), leaves, count, Reduction::whole(type, reduce, leaves.size()));
}

Reduction Reduction::whole(DType type, Reduce reduce, std::size_t n) {
  TRIREME_CHECK(!(is_integral(type) && reduce == Reduce::kAvg), "avg of {}", name(type));
  return {type, type, reduce == Reduce::kMax, reduce == Reduce::kAvg ? n : 1};
}

Reduction Reduction::block(DType type, Reduce reduce) {
  const bool narrow = type == DType::kBF16 || type == DType::kF16;
  return {type, narrow ? DType::kF32 : type, reduce == Reduce::kMax, 1};
}

Reduction Reduction::of_blocks(DType type, Reduce reduce, std::size_t n) {
  Reduction reduction = whole(type, reduce, n);
  reduction.from = block(type, reduce).to;
  return reduction;
}

void tree_reduce(std::span<void* const> outs, std::span<const void* const> leaves,
                 std::int64_t count, const Reduction& reduction) {
  TRIREME_CHECK(!leaves.empty() && count >= 0, "tree of {} leaves, {} elements", leaves.size(),
                count);
  with_types(reduction, [&](auto leaf, auto out) {
    using T = decltype(leaf);
    using Out = decltype(out);
    if (reduction.max) {
      reduce_all<Max, T, Out>(outs, leaves, count, 1);
    } else {
      reduce_all<Add, T, Out>(outs, leaves, count, reduction.divisor);
    }
  });
}

}  // namespace trireme::comm
