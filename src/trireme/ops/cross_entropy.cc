#include "trireme/ops/cross_entropy.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/scores.h"
#include "trireme/ops/parameter_gradient.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows in order, in fp64: the sum does not depend on threads.
template <typename A>
double ordered_sum(const at::Tensor& losses) {
  double sum = 0;
  for (std::int64_t i = 0; i < losses.numel(); ++i)
    sum += static_cast<double>(elements<A>(losses)[i]);
  return sum;
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& targets) {
    const at::Tensor logits = at::mm(x, weight.t());
    const std::int64_t rows = x.size(0);
    const std::int64_t classes = weight.size(0);
    const auto options = x.options().dtype(wide(x.scalar_type()));
    const at::Tensor losses = at::empty({rows}, options);
    const at::Tensor log_sums = at::empty({rows}, options);
    at::Tensor loss = at::empty({}, options);
    TRIREME_DISPATCH(x.scalar_type(), "cross_entropy", [&] {
      using A = kernels::Wide<scalar_t>;
      for_rows(rows, 4 * classes, [&](std::int64_t begin, std::int64_t end) {
        kernels::score_kernels<scalar_t>().cross_entropy(
            elements<scalar_t>(logits), elements<std::int64_t>(targets), kNoTarget, classes,
            elements<A>(losses), elements<A>(log_sums), begin, end);
      });
      *elements<A>(loss) = static_cast<A>(ordered_sum<A>(losses));
    });
    context->save_for_backward({x, weight, targets, logits, log_sums});
    return loss;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &targets = saved[2], &logits = saved[3];
    const std::int64_t classes = weight.size(0);
    const double seed = grads[0].item<double>();
    TRIREME_DISPATCH(x.scalar_type(), "cross_entropy_backward", [&] {
      for_rows(x.size(0), 4 * classes, [&](std::int64_t begin, std::int64_t end) {
        kernels::score_kernels<scalar_t>().cross_entropy_backward(
            elements<scalar_t>(logits), elements<std::int64_t>(targets), kNoTarget, classes,
            elements<kernels::Wide<scalar_t>>(saved[4]), seed, begin, end);
      });
    });
    variable_list result(3);
    if (context->needs_input_grad(0)) result[0] = at::mm(logits, weight);
    if (context->needs_input_grad(1)) result[1] = weight_gradient(logits, x, weight);
    return result;
  }
};

}  // namespace

at::Tensor linear_cross_entropy(const at::Tensor& x, const at::Tensor& weight,
                                const at::Tensor& targets) {
  const at::Tensor wanted = targets.reshape({-1}).contiguous();
  const std::int64_t* const target = elements<std::int64_t>(wanted);
  for (std::int64_t i = 0; i < wanted.numel(); ++i)
    if (target[i] != kNoTarget && (target[i] < 0 || target[i] >= weight.size(0)))
      fail(ErrorKind::kData,
           "target {} at position {} is outside the model's vocabulary of {}; prepare "
           "the data with this model's tokenizer, or raise model.vocab",
           target[i], i, weight.size(0));
  return LinearCrossEntropy::apply(x.reshape({-1, x.size(-1)}).contiguous(), weight, wanted);
}

}  // namespace trireme::ops
