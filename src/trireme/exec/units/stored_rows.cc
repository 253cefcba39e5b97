#include "trireme/exec/units/stored_rows.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/quantised.h"
#include "trireme/exec/units/initial_values.h"

namespace trireme::exec {

at::Tensor stored_rows(const model::ParamSpec& param, const at::Tensor& values) {
  if (!at::isfinite(values).all().item<bool>())
    fail(ErrorKind::kData,
         "{}: has values that are not finite, which have no quantised form; repair the weights, or "
         "set lora.base=full to see where they matter",
         param.name);
  const std::int64_t rows = param.matrix->shape[0], columns = param.matrix->shape[1];
  const std::int64_t bytes = row_bytes(param.form, columns);
  const at::Tensor stored = at::empty({param.numel()}, at::TensorOptions().dtype(at::kByte));
  const float* const from = values.data_ptr<float>();
  std::uint8_t* const to = stored.data_ptr<std::uint8_t>();
  at::parallel_for(0, rows, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      quantise_row(param.form, {from + i * columns, static_cast<std::size_t>(columns)},
                   {to + i * bytes, static_cast<std::size_t>(bytes)});
  });
  return stored;
}

at::Tensor initial_rows(const model::ParamSpec& param, std::uint64_t seed) {
  const model::ParamSpec& matrix = *param.matrix;
  const at::Generator generator = initial_generator(matrix, seed);
  const at::Tensor values = at::empty({matrix.numel()}, at::TensorOptions().dtype(at::kFloat));
  for (std::int64_t begin = 0; begin < matrix.numel(); begin += kDrawn) {
    const std::int64_t count = std::min(kDrawn, matrix.numel() - begin);
    values.narrow(0, begin, count).copy_(initial_values(matrix, begin, count, generator));
  }
  return stored_rows(param, values);
}

}  // namespace trireme::exec
