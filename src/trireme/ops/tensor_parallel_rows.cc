#include "trireme/ops/tensor_parallel_rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/empty.h>

#include <exception>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/matrix_product.h"

namespace trireme::ops {

Pending::~Pending() {
  // Only an exception on its way comes here with it unfinished, whose memory must live on.
  try {
    ticket_.wait();
  } catch (const std::exception&) {
  }
}

at::Tensor Pending::wait() {
  ticket_.wait();
  source_.reset();
  return result_;
}

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

std::int64_t whole_rows(const at::Tensor& x, const TensorParallel& tp) {
  const std::int64_t own = x.numel() / x.size(-1);
  if (!tp.shares_rows()) return own;
  const std::int64_t padded = own * tp.size();
  if (tp.tokens == 0) return padded;
  TRIREME_CHECK(tp.tokens >= tp.size(), "{} tokens a sample, shared by {} ranks", tp.tokens,
                tp.size());
  const std::int64_t rows = padded / tp.tokens * tp.tokens;
  TRIREME_CHECK(rows_per_rank(rows, tp) == own, "{} rows of each of {} ranks, samples of {} tokens",
                own, tp.size(), tp.tokens);
  return rows;
}

std::int64_t rows_per_rank(std::int64_t rows, const TensorParallel& tp) {
  return (rows + tp.size() - 1) / tp.size();
}

at::Tensor row_indices(std::int64_t rows, const TensorParallel& tp) {
  if (!tp.shares_rows()) return {};
  const std::int64_t per = rows_per_rank(rows, tp);
  return at::arange(tp.rank() * per, (tp.rank() + 1) * per, at::kLong);
}

Pending gather_rows(const at::Tensor& own, std::int64_t rows, const TensorParallel& tp) {
  if (!tp.shares_rows()) return Pending(own);
  const at::Tensor source = own.contiguous();
  TRIREME_CHECK(source.dim() == 2 && source.size(0) == rows_per_rank(rows, tp),
                "{} rows of {} shared by {} ranks", source.size(0), rows, tp.size());
  const at::Tensor padded = at::empty({source.size(0) * tp.size(), source.size(1)}, own.options());
  return {source, padded.narrow(0, 0, rows),
          tp.group->all_gather(comm::buffer(source), comm::buffer(padded))};
}

Pending sum_partials(const at::Tensor& partial, const TensorParallel& tp) {
  if (tp.size() == 1) return Pending(partial);
  if (!tp.sequence) return {partial, partial, tp.group->all_reduce(comm::buffer(partial))};
  const std::int64_t per = rows_per_rank(partial.size(0), tp);
  const std::int64_t padding = per * tp.size() - partial.size(0);
  const at::Tensor padded =
      padding > 0 ? at::constant_pad_nd(partial, {0, 0, 0, padding}) : partial;
  const at::Tensor own = at::empty({per, partial.size(1)}, partial.options());
  return {padded, own, tp.group->reduce_scatter(comm::buffer(padded), comm::buffer(own))};
}

std::vector<std::int64_t> outside_shape(at::IntArrayRef inside, std::int64_t width,
                                        const TensorParallel& tp) {
  std::vector<std::int64_t> shape = inside.vec();
  shape.back() = width;
  if (!tp.shares_rows()) return shape;
  std::int64_t rows = 1;
  for (std::size_t dim = 0; dim + 1 < shape.size(); ++dim) rows *= shape[dim];
  return {1, rows_per_rank(rows, tp), width};
}

at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp, const Adapter& adapter, const at::Tensor& inner,
                       const WeightGradientsPtr& gradients) {
  adds_in_place(weight, gradients);
  // The first rank's product takes the bias along: no pass over the sum, and padding stays zero.
  const at::Tensor added = tp.rank() == 0 ? bias : at::Tensor();
  const at::Tensor y = affine(as_rows(x), weight, added);
  adapter.add_to(y, inner);
  return sum_partials(y, tp).wait().view(outside_shape(x.sizes(), weight.size(0), tp));
}

void save(torch::autograd::AutogradContext* context, const TensorParallel& tp) {
  if (tp.size() == 1) return;
  context->saved_data["tp.group"] = reinterpret_cast<std::intptr_t>(tp.group);
  context->saved_data["tp.sequence"] = tp.sequence;
  context->saved_data["tp.tokens"] = tp.tokens;
}

TensorParallel saved_tensor_parallel(torch::autograd::AutogradContext* context) {
  auto& data = context->saved_data;
  const auto group = data.find("tp.group");
  if (group == data.end()) return {};
  return {.group = reinterpret_cast<comm::Group*>(group->second.toInt()),
          .sequence = data["tp.sequence"].toBool(),
          .tokens = data["tp.tokens"].toInt()};
}

}  // namespace trireme::ops
