// Where activations enter and leave tensor-parallel layers: plain functions on tensors, which ops call
// forward and, in each other's place, backward. On one rank they return their input.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstdint>

#include "trireme/comm/ticket.h"
#include "trireme/ops/adapters/adapter.h"
#include "trireme/ops/tensor_parallel.h"

namespace trireme::ops {

// A communication under way, with the memory it reads and writes.
class Pending {
 public:
  // Nothing to wait for.
  explicit Pending(at::Tensor result = {}) : result_(std::move(result)) {}
  Pending(at::Tensor source, at::Tensor result, comm::Ticket ticket)
      : source_(std::move(source)), result_(std::move(result)), ticket_(std::move(ticket)) {}
  Pending(Pending&&) = default;
  Pending& operator=(Pending&&) = delete;
  ~Pending();

  // Throws the communication's Error.
  at::Tensor wait();

 private:
  at::Tensor source_;
  at::Tensor result_;
  comm::Ticket ticket_;
};

// [.., d] -> [rows, d].
at::Tensor as_rows(const at::Tensor& x);

// Number of rows of all ranks in an activation x between tensor-parallel layers, without padding; and of each rank
// where `rows` are shared.
std::int64_t whole_rows(const at::Tensor& x, const TensorParallel& tp);
std::int64_t rows_per_rank(std::int64_t rows, const TensorParallel& tp);

// Which of `rows` flattened rows this rank's are, int64 [per], padding counted on; undefined where every rank
// has all.
at::Tensor row_indices(std::int64_t rows, const TensorParallel& tp);

// Into a tensor-parallel layer: all `rows` of which this rank has `own`; where every rank has all, `own` itself.
Pending gather_rows(const at::Tensor& own, std::int64_t rows, const TensorParallel& tp);

// Out of a tensor-parallel layer: the sum of all ranks' `partial`, [rows, d] in memory of its own, which is used up. Where
// rows are shared, this rank's [per, d].
Pending sum_partials(const at::Tensor& partial, const TensorParallel& tp);

// The shape outside of what is computed from `inside`, [.., anything], inside a tensor-parallel layer.
std::vector<std::int64_t> outside_shape(at::IntArrayRef inside, std::int64_t width,
                                        const TensorParallel& tp);

// The sum over ranks of x weight^T and of the adapter's result for its `inner` rows, plus the first rank's bias, which
// may be undefined: a layer whose input is shared by columns. Shapes: x [.., in]; weight [out, in]. Result as
// outside_shape().
at::Tensor row_product(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                       const TensorParallel& tp, const Adapter& adapter, const at::Tensor& inner,
                       const WeightGradientsPtr& gradients);

// From forward to backward.
void save(torch::autograd::AutogradContext* context, const TensorParallel& tp);
TensorParallel saved_tensor_parallel(torch::autograd::AutogradContext* context);

}  // namespace trireme::ops
