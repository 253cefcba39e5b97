#include "trireme/ops/aten/rows.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/embedding_dense_backward.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/mm.h>
#include <torch/version.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/matrix_product.h"

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 9)
#define TRIREME_WIDE_PRODUCTS 1  // mm(a, b, type of the result)
#endif

namespace trireme::ops::aten {
namespace {

// Rows of a table and whether they are in it; absent ones have row 0.
struct Places {
  at::Tensor rows;
  at::Tensor here;
};

Places places_of(const at::Tensor& ids, std::int64_t first, std::int64_t rows) {
  const at::Tensor row = ids.reshape({-1}) - first;
  const at::Tensor here = row.ge(0).logical_and(row.lt(rows));
  return {.rows = row.mul(here), .here = here.unsqueeze(1)};
}

}  // namespace

at::Tensor lookup(const at::Tensor& ids, const at::Tensor& table, std::int64_t first) {
  const Places places = places_of(ids, first, table.size(0));
  return at::index_select(table, 0, places.rows).mul_(places.here);
}

at::Tensor lookup_backward(const at::Tensor& ids, const at::Tensor& dy, std::int64_t first,
                           std::int64_t rows) {
  const Places places = places_of(ids, first, rows);
  return at::embedding_dense_backward(dy.to(wide(dy.scalar_type())).mul(places.here), places.rows,
                                      rows, /*padding_idx=*/-1, /*scale_grad_by_freq=*/false);
}

at::Tensor sum_rows(const at::Tensor& x) {
  return x.sum(0, /*keepdim=*/false, wide(x.scalar_type()));
}

void add_product(const at::Tensor& a, const at::Tensor& b, const at::Tensor& sum) {
  if (a.scalar_type() == sum.scalar_type()) {
    accumulate_product(a, b, sum);
    return;
  }
#if TRIREME_WIDE_PRODUCTS
  if (a.is_cuda()) {
    sum.add_(at::mm(a, b, sum.scalar_type()));
    return;
  }
#endif
  sum.add_(product(a, b));
}

}  // namespace trireme::ops::aten
