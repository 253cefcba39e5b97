#include "trireme/ops/pointwise.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cmath>

#include "trireme/ops/aten/pointwise.h"
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
  if (!has_kernels(x)) return aten::rotate(x, table.cosines, table.sines, direction);
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

at::Tensor pairs_rotated(const at::Tensor& x, const RotaryTable& table, bool gradient) {
  const std::int64_t width = table.cosines.size(1);
  TRIREME_CHECK(x.dim() == 3 && x.size(1) <= table.cosines.size(0) && width % 2 == 0 &&
                    x.size(2) % width == 0 && x.stride(2) == 1 &&
                    table.cosines.scalar_type() == wide(x.scalar_type()),
                "rotary table of {} positions and {} channels does not fit", table.cosines.size(0),
                width);
  if (!has_kernels(x)) return aten::rotate_pairs(x, table.cosines, table.sines, gradient);
  const at::Tensor rows = x.flatten(0, 1);
  at::Tensor y = at::empty(x.sizes(), x.options());
  TRIREME_DISPATCH(x.scalar_type(), "rotary of pairs", [&] {
    using A = kernels::Wide<scalar_t>;
    const kernels::PairRotation<scalar_t> rotation{.cosines = elements<A>(table.cosines),
                                                   .sines = elements<A>(table.sines),
                                                   .positions = x.size(1),
                                                   .heads = x.size(2) / width,
                                                   .width = width,
                                                   .stride = rows.stride(0),
                                                   .gradient = gradient};
    const scalar_t* const from = rows.data_ptr<scalar_t>();
    for_rows(rows.size(0), rows.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::pointwise_kernels<scalar_t>().rotate_pairs(rotation, from, elements<scalar_t>(y),
                                                          begin, end - begin);
    });
  });
  return y;
}

struct RotaryPairs : torch::autograd::Function<RotaryPairs> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cosines, const at::Tensor& sines) {
    context->save_for_backward({cosines, sines});
    return pairs_rotated(x, {.cosines = cosines, .sines = sines}, false);
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list table = context->get_saved_variables();
    return {pairs_rotated(grads[0].contiguous(), {.cosines = table[0], .sines = table[1]}, true),
            {},
            {}};
  }
};

// x and perhaps rows.
struct Dropout : torch::autograd::Function<Dropout> {
  static at::Tensor forward(AutogradContext* context, at::TensorList in, double p,
                            std::int64_t key) {
    const at::Tensor rows = in.size() > 1 ? in[1] : at::Tensor();
    context->saved_data["p"] = p;
    context->saved_data["key"] = key;
    context->save_for_backward({rows});
    return dropped(in[0], {.p = p, .key = static_cast<std::uint64_t>(key), .rows = rows});
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor rows = context->get_saved_variables()[0];
    variable_list result(rows.defined() ? 4 : 3);
    result[0] = dropped(grads[0].contiguous(),
                        {.p = context->saved_data["p"].toDouble(),
                         .key = static_cast<std::uint64_t>(context->saved_data["key"].toInt()),
                         .rows = rows});
    return result;
  }
};

}  // namespace

RotaryTable RotaryTable::at(const at::Tensor& positions) const {
  if (!positions.defined()) return *this;
  return {cosines.index_select(0, positions), sines.index_select(0, positions)};
}

RotaryTable rotary_table(std::int64_t positions, std::span<const double> frequencies,
                         double amplitude, at::ScalarType type) {
  const auto options = at::TensorOptions().dtype(at::kDouble);
  at::Tensor cosines = at::empty({positions, std::ssize(frequencies)}, options);
  at::Tensor sines = at::empty_like(cosines);
  double* cosine = cosines.data_ptr<double>();
  double* sine = sines.data_ptr<double>();
  for (std::int64_t t = 0; t < positions; ++t)
    for (const double frequency : frequencies) {
      const double angle = static_cast<double>(t) * frequency;
      *cosine++ = amplitude * std::cos(angle);
      *sine++ = amplitude * std::sin(angle);
    }
  return {.cosines = cosines.to(type), .sines = sines.to(type)};
}

at::Tensor rotary(const at::Tensor& x, const RotaryTable& table) {
  return Rotary::apply(x.contiguous(), table.cosines, table.sines);
}

at::Tensor rotary_pairs(const at::Tensor& x, const RotaryTable& table) {
  return RotaryPairs::apply(x, table.cosines, table.sines);
}

at::Tensor dropped(const at::Tensor& x, const Noise& noise) {
  const kernels::Keep keep = kernels::Keep::at_rate(noise.key, noise.p);
  const double scale = 1 / (1 - noise.p);
  if (!has_kernels(x)) return aten::dropout(x, keep, scale, noise.rows, noise.columns, noise.first);
  const bool all = !noise.rows.defined() && noise.columns == 0;  // then x is one row
  const std::int64_t width = all ? x.numel() : x.size(-1);
  const std::int64_t columns = noise.columns > 0 ? noise.columns : width;
  const std::int64_t* const row =
      noise.rows.defined() ? elements<std::int64_t>(noise.rows) : nullptr;
  at::Tensor y = at::empty_like(x);
  TRIREME_DISPATCH(x.scalar_type(), "dropout", [&] {
    for_rows(x.numel(), 1, [&](std::int64_t begin, std::int64_t end) {
      while (begin < end) {
        const std::int64_t r = begin / width;
        const std::int64_t count = std::min(end, (r + 1) * width) - begin;
        const std::int64_t place =
            (row != nullptr ? row[r] : r) * columns + noise.first + begin % width;
        kernels::pointwise_kernels<scalar_t>().dropout(keep, scale, place,
                                                       elements<scalar_t>(x) + begin,
                                                       elements<scalar_t>(y) + begin, count);
        begin += count;
      }
    });
  });
  return y;
}

at::Tensor dropout(const at::Tensor& x, double p, std::uint64_t key, const at::Tensor& rows) {
  TRIREME_CHECK(p >= 0 && p < 1, "dropout of {}", p);
  variable_list in = {x.contiguous()};
  if (rows.defined()) {
    TRIREME_CHECK(rows.numel() * x.size(-1) == x.numel(), "{} row numbers for {} elements in {}s",
                  rows.numel(), x.numel(), x.size(-1));
    in.push_back(rows.contiguous());
  }
  return Dropout::apply(at::TensorList(in), p, static_cast<std::int64_t>(key));
}

}  // namespace trireme::ops
