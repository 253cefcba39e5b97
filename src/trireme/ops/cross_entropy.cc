#include "trireme/ops/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/ops/aten/cross_entropy.h"
#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/scores.h"
#include "trireme/ops/matrix_product.h"
#include "trireme/ops/parameter_gradient.h"
#include "trireme/ops/tensor_parallel_rows.h"
#include "trireme/ops/vocabulary.h"

namespace trireme::ops {
namespace {

using aten::RowStats;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

kernels::LogitRows logit_rows(const at::Tensor& logits, const at::Tensor& targets,
                              std::int64_t first, double cap = 0) {
  return {.targets = elements<std::int64_t>(targets),
          .ignored = kNoTarget,
          .first = first,
          .count = logits.size(1),
          .cap = cap};
}

// [rows, classes], capped if `cap` is above 0.
at::Tensor logits_of(const at::Tensor& input, const at::Tensor& rows, double cap) {
  at::Tensor logits = product(input, rows.t());
  if (cap == 0) return logits;
  if (!has_kernels(logits)) return logits.div_(cap).tanh_().mul_(cap);
  TRIREME_DISPATCH(logits.scalar_type(), "cap", [&] {
    scalar_t* const all = elements<scalar_t>(logits);
    for_rows(logits.size(0), 4 * logits.size(1), [&](std::int64_t begin, std::int64_t end) {
      kernels::score_kernels<scalar_t>().cap_logits(all + begin * logits.size(1),
                                                    (end - begin) * logits.size(1), cap);
    });
  });
  return logits;
}

RowStats row_stats(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first) {
  if (!has_kernels(logits)) return aten::row_stats(logits, targets, first);
  const std::int64_t rows = logits.size(0);
  const auto options = logits.options().dtype(wide(logits.scalar_type()));
  const RowStats stats{at::empty({rows}, options), at::empty({rows}, options)};
  TRIREME_DISPATCH(logits.scalar_type(), "log_sum_exp", [&] {
    using A = kernels::Wide<scalar_t>;
    const kernels::LogitRows view = logit_rows(logits, targets, first);
    for_rows(rows, 4 * view.count, [&](std::int64_t begin, std::int64_t end) {
      kernels::score_kernels<scalar_t>().log_sum_exp(view, elements<scalar_t>(logits),
                                                     elements<A>(stats.chosen),
                                                     elements<A>(stats.log_sums), begin, end);
    });
  });
  return stats;
}

// Makes `stats` those of its classes and of the classes of `more`.
void join(const RowStats& stats, const RowStats& more) {
  stats.chosen.add_(more.chosen);
  if (!has_kernels(stats.log_sums)) {
    stats.log_sums.copy_(at::logaddexp(stats.log_sums, more.log_sums));
    return;
  }
  AT_DISPATCH_FLOATING_TYPES(stats.log_sums.scalar_type(), "join", [&] {
    scalar_t* const sums = elements<scalar_t>(stats.log_sums);
    const scalar_t* const others = elements<scalar_t>(more.log_sums);
    for (std::int64_t r = 0; r < stats.log_sums.numel(); ++r) {
      if (others[r] == -std::numeric_limits<scalar_t>::infinity()) continue;  // of no classes
      // A NaN of either comes through.
      const scalar_t apart = std::abs(sums[r] - others[r]);
      sums[r] = std::max(sums[r], others[r]) + std::log1p(std::exp(-apart));
    }
  });
}

// Every rank joins the same shares in the same order.
RowStats join_ranks(const RowStats& own, const TensorParallel& tp) {
  if (tp.size() == 1) return own;
  const at::Tensor mine = at::stack({own.log_sums, own.chosen});
  const at::Tensor all = at::empty({tp.size(), 2, mine.size(1)}, mine.options());
  tp.group->all_gather(comm::buffer(mine), comm::buffer(all)).wait();
  const RowStats stats{all[0][0].clone(), all[0][1].clone()};
  for (int rank = 1; rank < tp.size(); ++rank) join(stats, {all[rank][0], all[rank][1]});
  return stats;
}

// Rows in order, in fp64: the sum does not depend on threads.
at::Tensor total_loss(const at::Tensor& losses, const at::Tensor& targets) {
  if (!has_kernels(losses)) return aten::total_loss(losses, targets);
  at::Tensor loss = at::empty({}, losses.options());
  AT_DISPATCH_FLOATING_TYPES(loss.scalar_type(), "cross_entropy", [&] {
    const std::int64_t* const target = elements<std::int64_t>(targets);
    double sum = 0;
    for (std::int64_t r = 0; r < targets.numel(); ++r)
      if (target[r] != kNoTarget) sum += static_cast<double>(elements<scalar_t>(losses)[r]);
    *elements<scalar_t>(loss) = static_cast<scalar_t>(sum);
  });
  return loss;
}

// Logits become the gradient of the sum of seed * loss over rows; `seeds` are one a row, or a scalar.
void to_gradient(const at::Tensor& logits, const at::Tensor& targets, std::int64_t first,
                 const at::Tensor& log_sums, const at::Tensor& seeds, double cap) {
  if (!has_kernels(logits)) return aten::to_gradient(logits, targets, first, log_sums, seeds, cap);
  TRIREME_DISPATCH(logits.scalar_type(), "cross_entropy_backward", [&] {
    using A = kernels::Wide<scalar_t>;
    const kernels::LogitRows view = logit_rows(logits, targets, first, cap);
    for_rows(logits.size(0), 4 * view.count, [&](std::int64_t begin, std::int64_t end) {
      kernels::score_kernels<scalar_t>().cross_entropy_backward(
          view, elements<scalar_t>(logits), elements<A>(log_sums),
          {.seeds = elements<A>(seeds), .stride = seeds.dim()}, begin, end);
    });
  });
}

// Calls body(first, rows of the weight from there) for the whole weight, in segments. Logits that are kept go through
// the products of those that are not: the shapes of a product decide its bits.
template <typename Body>
void for_pieces(const at::Tensor& weight, const Body& body) {
  for (std::int64_t first = 0; first < weight.size(0); first += kLogitColumns)
    body(first, weight.narrow(0, first, std::min(kLogitColumns, weight.size(0) - first)));
}

// The gradient of a weight, in segments of its rows: added to its target, or returned.
class RowGradients {
 public:
  RowGradients(const at::Tensor& weight, const WeightGradientsPtr& gradients)
      : target_(gradient_target(weight, gradients)),
        returned_(target_.defined() ? at::Tensor() : at::empty_like(weight)) {}

  void add(std::int64_t first, const at::Tensor& dlogits, const at::Tensor& input) const {
    if (target_.defined())
      add_transposed_product(dlogits, input, target_.sum.narrow(0, first, dlogits.size(1)),
                             target_.into);
    else
      returned_.narrow(0, first, dlogits.size(1)).copy_(product(dlogits.t(), input));
  }
  const at::Tensor& returned() const { return returned_; }

 private:
  GradientTarget target_;
  at::Tensor returned_;
};

at::Tensor output_gradient(const variable_list& dlogits, const at::Tensor& input,
                           const at::Tensor& weight, const WeightGradientsPtr& gradients) {
  const RowGradients dweight(weight, gradients);
  std::int64_t first = 0;
  for (const at::Tensor& piece : dlogits) {
    dweight.add(first, piece, input);
    first += piece.size(1);
  }
  return dweight.returned();
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& targets, std::int64_t first_row,
                            const TensorParallel& tp, bool keep_logits, bool sum,
                            const WeightGradientsPtr& gradients, double cap) {
    context->saved_data["first_row"] = first_row;
    context->saved_data["cap"] = cap;
    context->saved_data["kept"] = keep_logits;
    save(context, tp);
    save(context, gradients);
    adds_in_place(weight, gradients);
    const at::Tensor input = gather_rows(x, targets.numel(), tp).wait();
    variable_list pieces;
    RowStats stats = row_stats(input.narrow(1, 0, 0), targets, first_row);
    for_pieces(weight, [&](std::int64_t first, const at::Tensor& rows) {
      const at::Tensor logits = logits_of(input, rows, cap);
      join(stats, row_stats(logits, targets, first_row + first));
      if (keep_logits) pieces.push_back(logits);
    });
    stats = join_ranks(stats, tp);
    const bool reads_x = weight.requires_grad() || !keep_logits;
    variable_list saved = {reads_x ? x : at::Tensor(), weight, targets, stats.log_sums};
    saved.insert(saved.end(), pieces.begin(), pieces.end());
    context->save_for_backward(std::move(saved));
    const at::Tensor losses = stats.chosen.neg_().add_(stats.log_sums);
    return sum ? total_loss(losses, targets) : losses.masked_fill_(targets.eq(kNoTarget), 0);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor seeds = grads[0].contiguous();
    variable_list result = context->saved_data["kept"].toBool()
                               ? backward_kept(context, seeds)
                               : backward_recomputed(context, seeds);
    result.resize(9);
    return result;
  }

  static variable_list backward_kept(AutogradContext* context, const at::Tensor& seeds) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &targets = saved[2];
    const variable_list pieces(saved.begin() + 4, saved.end());
    const std::int64_t first_row = context->saved_data["first_row"].toInt();
    const double cap = context->saved_data["cap"].toDouble();
    const TensorParallel tp = saved_tensor_parallel(context);
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    const bool trains = weight.requires_grad();
    const bool later = deferring(gradients);
    Pending gathered = later || !trains ? Pending() : gather_rows(x, targets.numel(), tp);
    at::Tensor dx = input_gradient(context, targets, weight);
    for_pieces(weight, [&](std::int64_t first, const at::Tensor& rows) {
      const at::Tensor& logits = pieces[first / kLogitColumns];
      to_gradient(logits, targets, first_row + first, saved[3], seeds, cap);
      if (dx.defined()) add_product(logits, rows, dx);
    });
    Pending summed = sum_ranks(std::move(dx), weight, tp);
    variable_list result(2);
    if (later && trains)
      gradients->push([x = x.detach(), weight, pieces, rows = targets.numel(),
                       tp](const WeightGradientsPtr& own) {
        const at::Tensor input = gather_rows(x, rows, tp).wait();
        add_gradient(weight, output_gradient(pieces, input, weight, own));
      });
    else if (trains)
      result[1] = output_gradient(pieces, gathered.wait(), weight, gradients);
    result[0] = summed.wait();
    return result;
  }

  static variable_list backward_recomputed(AutogradContext* context, const at::Tensor& seeds) {
    const WeightGradientsPtr gradients = saved_weight_gradients(context);
    TRIREME_CHECK(!deferring(gradients), "a backward that recomputes logits cannot be split");
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &targets = saved[2];
    const std::int64_t first_row = context->saved_data["first_row"].toInt();
    const double cap = context->saved_data["cap"].toDouble();
    const TensorParallel tp = saved_tensor_parallel(context);
    const at::Tensor input = gather_rows(x, targets.numel(), tp).wait();
    at::Tensor dx = input_gradient(context, targets, weight);
    std::optional<RowGradients> dweight;
    if (weight.requires_grad()) dweight.emplace(weight, gradients);
    for_pieces(weight, [&](std::int64_t first, const at::Tensor& rows) {
      const at::Tensor logits = logits_of(input, rows, cap);
      to_gradient(logits, targets, first_row + first, saved[3], seeds, cap);
      if (dx.defined()) add_product(logits, rows, dx);
      if (dweight) dweight->add(first, logits, input);
    });
    variable_list result(2);
    result[0] = sum_ranks(std::move(dx), weight, tp).wait();
    if (dweight) result[1] = dweight->returned();
    return result;
  }

  // Sum of the gradient of x over segments, in the type of sums; undefined if it is not needed.
  static at::Tensor input_gradient(AutogradContext* context, const at::Tensor& targets,
                                   const at::Tensor& weight) {
    if (!context->needs_input_grad(0)) return {};
    return at::zeros({targets.numel(), weight.size(1)},
                     weight.options().dtype(wide(weight.scalar_type())));
  }
  static Pending sum_ranks(at::Tensor dx, const at::Tensor& weight, const TensorParallel& tp) {
    if (!dx.defined()) return Pending();
    dx = dx.to(weight.scalar_type());  // the wide one goes before others come
    return sum_partials(dx, tp);
  }
};

at::Tensor token_losses(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& targets,
                        std::int64_t first_row, const TensorParallel& tp, Logits logits, bool sum,
                        const WeightGradientsPtr& gradients, double cap) {
  const at::Tensor wanted = targets.reshape({-1}).contiguous();
  check_ids("target", wanted, kNoTarget, first_row, weight.size(0), tp);
  return LinearCrossEntropy::apply(as_rows(x).contiguous(), weight, wanted, first_row, tp,
                                   logits == Logits::kKept, sum, gradients, cap);
}

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets, std::int64_t first_row,
                                const TensorParallel& tp, Logits logits,
                                const WeightGradientsPtr& gradients, double cap) {
  return token_losses(x, weight, targets, first_row, tp, logits, /*sum=*/true, gradients, cap);
}

at::Tensor linear_token_losses(const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& targets, std::int64_t first_row,
                               const TensorParallel& tp, Logits logits,
                               const WeightGradientsPtr& gradients, double cap) {
  return token_losses(x, weight, targets, first_row, tp, logits, /*sum=*/false, gradients, cap)
      .view(targets.sizes());
}

}  // namespace trireme::ops
