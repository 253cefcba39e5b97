#include "trireme/ops/aten/pointwise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/stack.h>

#include "trireme/ops/dispatch.h"

namespace trireme::ops::aten {
namespace {

// x ^ (x >> bits), the shift filling with zeros, for integers of `width` bits.
at::Tensor fold(const at::Tensor& x, int bits, int width) {
  const std::int64_t lower = (std::int64_t{1} << (width - bits)) - 1;
  return x.bitwise_right_shift(bits).bitwise_and_(lower).bitwise_xor_(x);
}

std::int64_t as_signed(std::uint64_t bits) { return static_cast<std::int64_t>(bits); }
std::int64_t as_signed32(std::uint32_t bits) { return static_cast<std::int32_t>(bits); }

// Keep::row.
at::Tensor row_keys(const kernels::Keep& keep, const at::Tensor& rows) {
  at::Tensor z = rows * as_signed(0x9E3779B97F4A7C15ull);
  z.bitwise_xor_(as_signed(keep.key)).mul_(as_signed(0xBF58476D1CE4E5B9ull));
  z = fold(z, 31, 64).mul_(as_signed(0x94D049BB133111EBull));
  return z.bitwise_right_shift(32).to(at::kInt);
}

}  // namespace

at::Tensor gelu(const at::Tensor& x) { return at::gelu(x, "tanh"); }

GeluBackward gelu_backward(const at::Tensor& x, const at::Tensor& dy) {
  return {.dx = at::gelu_backward(dy, x, "tanh"), .y = aten::gelu(x)};
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) { return at::silu(gate).mul_(up); }

GatedBackward swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy) {
  const at::Tensor active = at::silu(gate);
  return {.dgate = at::silu_backward(dy * up, gate), .dup = dy * active, .y = active * up};
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up) { return aten::gelu(gate).mul_(up); }

GatedBackward geglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy) {
  const auto [dgate, active] = aten::gelu_backward(gate, dy * up);
  return {.dgate = dgate, .dup = dy * active, .y = active * up};
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                  int direction) {
  const std::int64_t tokens = x.size(1), half = cosines.size(1);
  const auto of_tokens = [&](const at::Tensor& table) {
    return table.narrow(0, 0, tokens).view({tokens, 1, half});
  };
  const at::Tensor pairs = x.view({x.size(0), tokens, -1, 2, half});
  const at::Tensor a = pairs.select(3, 0), b = pairs.select(3, 1);
  const at::Tensor cosine = of_tokens(cosines), sine = of_tokens(sines) * direction;
  return at::stack({a * cosine - b * sine, b * cosine + a * sine}, 3)
      .to(x.scalar_type())
      .view(x.sizes());
}

at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                        bool gradient) {
  const std::int64_t tokens = x.size(1), width = cosines.size(1);
  const auto of_tokens = [&](const at::Tensor& table) {
    return table.narrow(0, 0, tokens).view({tokens, 1, width});
  };
  // Of a pair (a, b) of channels, (-b, a); of its gradient (b, -a).
  const auto turned = [&](const at::Tensor& channels) {
    const at::Tensor pairs = channels.unflatten(-1, {-1, 2});
    const at::Tensor a = pairs.select(-1, 0), b = pairs.select(-1, 1);
    return (gradient ? at::stack({b, a.neg()}, -1) : at::stack({b.neg(), a}, -1)).flatten(-2);
  };
  const at::Tensor heads = x.reshape({x.size(0), tokens, -1, width}).to(cosines.scalar_type());
  const at::Tensor sine = of_tokens(sines);
  const at::Tensor other = gradient ? turned(heads * sine) : turned(heads) * sine;
  return (heads * of_tokens(cosines) + other).to(x.scalar_type()).view(x.sizes());
}

at::Tensor kept(const kernels::Keep& keep, const at::Tensor& rows, const at::Tensor& columns) {
  const at::Tensor across = columns.to(at::kInt) * as_signed32(0x9E3779B9u);
  at::Tensor h = row_keys(keep, rows).bitwise_xor(across);
  h = fold(h, 16, 32).mul_(as_signed32(0x7FEB352Du));
  h = fold(h, 15, 32).mul_(as_signed32(0x846CA68Bu));
  // Unsigned order is signed order with the highest bit flipped.
  constexpr std::uint32_t kHighest = 0x80000000u;
  return fold(h, 16, 32)
      .bitwise_xor_(as_signed32(kHighest))
      .ge(as_signed32(keep.threshold ^ kHighest));
}

at::Tensor dropout(const at::Tensor& x, const kernels::Keep& keep, double scale,
                   const at::Tensor& rows, std::int64_t columns, std::int64_t first) {
  const auto counted = x.options().dtype(at::kLong);
  at::Tensor mask;
  if (rows.defined() || columns > 0) {
    const std::int64_t width = x.size(-1);
    const at::Tensor row = rows.defined() ? rows : at::arange(x.numel() / width, counted);
    const at::Tensor places = row.view({-1, 1}) * (columns > 0 ? columns : width) +
                              at::arange(first, first + width, counted);
    mask = kept(keep, places.div(kernels::kPlacesOfKey, "floor"),
                places.remainder(kernels::kPlacesOfKey));
  } else {
    const std::int64_t keys = (x.numel() + kernels::kPlacesOfKey - 1) / kernels::kPlacesOfKey;
    mask = kept(keep, at::arange(keys, counted).view({-1, 1}),
                at::arange(kernels::kPlacesOfKey, counted))
               .view(-1)
               .narrow(0, 0, x.numel());
  }
  return (x.to(wide(x.scalar_type())) * scale).mul_(mask.view(x.sizes())).to(x.scalar_type());
}

}  // namespace trireme::ops::aten
