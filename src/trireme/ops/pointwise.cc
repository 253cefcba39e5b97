#include "trireme/ops/pointwise.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/pointwise.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor rotated(const at::Tensor& x, const RotaryTable& table, int direction) {
  TRIREME_CHECK(x.dim() == 3 && x.size(1) <= table.cosines.size(0) &&
                    x.size(2) % (2 * table.cosines.size(1)) == 0 &&
                    table.cosines.scalar_type() == wide(x.scalar_type()),
                "rotary table of {} positions does not fit", table.cosines.size(0));
  at::Tensor y = at::empty_like(x);
  TRIREME_DISPATCH(x.scalar_type(), "rotary", [&] {
    using A = kernels::Wide<scalar_t>;
    const std::int64_t width = 2 * table.cosines.size(1);
    const kernels::Rotation<scalar_t> rotation{.cosines = elements<A>(table.cosines),
                                               .sines = elements<A>(table.sines),
                                               .positions = x.size(1),
                                               .heads = x.size(2) / width,
                                               .width = width,
                                               .direction = direction};
    for_rows(x.size(0) * x.size(1), x.size(2), [&](std::int64_t begin, std::int64_t end) {
      kernels::pointwise_kernels<scalar_t>().rotate(rotation, elements<scalar_t>(x),
                                                    elements<scalar_t>(y), begin, end - begin);
    });
  });
  return y;
}

struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cosines, const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return rotated(x, {.cosines = cosines, .sines = sines}, 1);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list table = context->get_saved_variables();
    return {rotated(grads[0].contiguous(), {.cosines = table[0], .sines = table[1]}, -1), {}, {}};
  }
};

at::Tensor dropped(const at::Tensor& x, double p, std::uint64_t key) {
  constexpr std::int64_t kRow = 1024;  // elements that share a row key
  const std::int64_t rows = x.numel() / kRow;
  const kernels::Keep keep = kernels::Keep::at_rate(key, p);
  const double scale = 1 / (1 - p);
  at::Tensor y = at::empty_like(x);
  TRIREME_DISPATCH(x.scalar_type(), "dropout", [&] {
    const scalar_t* const from = elements<scalar_t>(x);
    scalar_t* const to = elements<scalar_t>(y);
    const auto dropout = kernels::pointwise_kernels<scalar_t>().dropout;
    for_rows(rows, kRow, [&](std::int64_t begin, std::int64_t end) {
      dropout(keep, scale, from, to, kRow, begin, end);
    });
    // What is left is a short row under a key of its own.
    const kernels::Keep tail = kernels::Keep::at_rate(~key, p);
    dropout(tail, scale, from + rows * kRow, to + rows * kRow, x.numel() - rows * kRow, 0, 1);
  });
  return y;
}

struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double p,
                            std::int64_t key) {
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    return dropped(x, p, static_cast<std::uint64_t>(key));
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    return {dropped(grads[0].contiguous(), context->saved_data["p"].toDouble(),
                    static_cast<std::uint64_t>(context->saved_data["key"].toInt())),
            {},
            {}};
  }
};

}  // namespace

RotaryTable rotary_table(std::int64_t positions, std::int64_t head_dim, double theta,
                         at::ScalarType type) {
  const std::int64_t half = head_dim / 2;
  const auto options = at::TensorOptions().dtype(at::kDouble);
  at::Tensor cosines = at::empty({positions, half}, options);
  at::Tensor sines = at::empty({positions, half}, options);
  for (std::int64_t t = 0; t < positions; ++t)
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(t) *
          std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
      cosines.data_ptr<double>()[t * half + i] = std::cos(angle);
      sines.data_ptr<double>()[t * half + i] = std::sin(angle);
    }
  return {.cosines = cosines.to(type), .sines = sines.to(type)};
}

at::Tensor rotary(const at::Tensor& x, const RotaryTable& table) {
  return Rotary::apply(x.contiguous(), table.cosines, table.sines);
}

at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t key) {
  TRIREME_CHECK(p >= 0 && p < 1, "dropout of {}", p);
  return Dropout::apply(x.contiguous(), p, static_cast<std::int64_t>(key));
}

}  // namespace trireme::ops
