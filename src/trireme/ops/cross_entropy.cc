#include "trireme/ops/cross_entropy.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/scores.h"

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
                            const at::Tensor& targets, bool gradient) {
    at::Tensor logits = at::mm(x, weight.t());
    const std::int64_t rows = x.size(0);
    const std::int64_t classes = weight.size(0);
    const auto options = x.options().dtype(wide(x.scalar_type()));
    at::Tensor losses = at::empty({rows}, options);
    at::Tensor loss = at::empty({}, options);
    TRIREME_DISPATCH(x.scalar_type(), "cross_entropy", [&] {
      using A = kernels::Wide<scalar_t>;
      for_rows(rows, 4 * classes, [&](std::int64_t begin, std::int64_t end) {
        kernels::cross_entropy<scalar_t>(elements<scalar_t>(logits),
                                         elements<std::int64_t>(targets), kNoTarget, classes,
                                         gradient, elements<A>(losses), begin, end);
      });
      *elements<A>(loss) = static_cast<A>(ordered_sum<A>(losses));
    });
    if (gradient) context->save_for_backward({x, weight, logits});
    return loss;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const variable_list saved = context->get_saved_variables();
    const double seed =
        grads[0].item<double>();  // a number is not rounded to bf16, a tensor would be
    const at::Tensor& dlogits = saved[2];
    return {at::mm(dlogits, saved[1]).mul_(seed), at::mm(dlogits.t(), saved[0]).mul_(seed), {}, {}};
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
  return LinearCrossEntropy::apply(x.reshape({-1, x.size(-1)}), weight, wanted,
                                   at::GradMode::is_enabled());
}

}  // namespace trireme::ops
