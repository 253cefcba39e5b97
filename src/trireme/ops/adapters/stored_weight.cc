#include "trireme/ops/adapters/stored_weight.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

#include "trireme/base/quantised.h"
#include "trireme/ops/dispatch.h"

namespace trireme::ops {
namespace {

at::Tensor values_by_operators(const at::Tensor& weight, RowForm form, std::int64_t columns) {
  const at::Tensor rows = weight.view({weight.size(0), -1});
  const std::int64_t codes_bytes = form == RowForm::kNf4 ? columns / 2 : columns;
  const at::Tensor codes = rows.narrow(1, 0, codes_bytes);
  const at::Tensor scales = rows.narrow(1, codes_bytes, rows.size(1) - codes_bytes)
                                .clone(at::MemoryFormat::Contiguous)
                                .view(at::kFloat);
  if (form == RowForm::kInt8)
    return codes.contiguous().view(at::kChar).to(at::kFloat).mul_(scales / 127.0f);
  const at::Tensor places =
      at::stack({at::bitwise_right_shift(codes, 4), at::bitwise_and(codes, 15)}, 2).to(at::kLong);
  const std::span<const float, 16> table = nf4_values();
  const at::Tensor values =
      at::from_blob(const_cast<float*>(table.data()), {16}, at::kFloat).to(weight.device());
  return values.index_select(0, places.view({-1}))
      .view({weight.size(0), -1, kNf4Block})
      .mul_(scales.unsqueeze(2))
      .view({weight.size(0), columns});
}

// `wide` has the row in fp32, where the type is another.
template <typename T>
void values_of_row(RowForm form, std::span<const std::uint8_t> stored, std::vector<float>& wide,
                   T* to) {
  if constexpr (std::is_same_v<T, float>) {
    dequantise_row(form, stored, {to, wide.size()});
  } else {
    dequantise_row(form, stored, wide);
    std::ranges::transform(wide, to, [](float value) { return static_cast<T>(value); });
  }
}

}  // namespace

at::Tensor stored_values(const at::Tensor& weight, at::ScalarType type) {
  const RowForm form = weight.dim() == 3 ? RowForm::kNf4 : RowForm::kInt8;
  const std::int64_t columns =
      form == RowForm::kNf4 ? weight.size(1) * kNf4Block : weight.size(1) - row_bytes(form, 0);
  if (!has_kernels(weight)) return values_by_operators(weight, form, columns).to(type);
  const std::int64_t rows = weight.size(0), bytes = row_bytes(form, columns);
  const at::Tensor values = at::empty({rows, columns}, weight.options().dtype(type));
  const std::uint8_t* const from = elements<std::uint8_t>(weight);
  TRIREME_DISPATCH(type, "stored_values", [&] {
    scalar_t* const to = elements<scalar_t>(values);
    for_rows(rows, columns, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> wide(static_cast<std::size_t>(columns));
      for (std::int64_t i = begin; i < end; ++i)
        values_of_row(form, {from + i * bytes, static_cast<std::size_t>(bytes)}, wide,
                      to + i * columns);
    });
  });
  return values;
}

}  // namespace trireme::ops
