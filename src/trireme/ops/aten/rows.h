// Tables, sums over rows and products by LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::ops::aten {

// Rows of `table`, whose ids begin with `first`, for ids [count]; zeros for ids of other tables.
at::Tensor lookup(const at::Tensor& ids, const at::Tensor& table, std::int64_t first);

// Gradient of such a table of `rows` rows from that of the rows that were looked up, dy [count, d], in the type of
// sums. The order of additions does not depend on the device's threads.
at::Tensor lookup_backward(const at::Tensor& ids, const at::Tensor& dy, std::int64_t first,
                           std::int64_t rows);

// The sum of x's rows, in the type of sums.
at::Tensor sum_rows(const at::Tensor& x);

// sum += a b. Where LibTorch has no product of a's type with wider results, it is rounded to that type first.
void add_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum);

}  // namespace trireme::ops::aten
