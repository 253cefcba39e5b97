#include "trireme/families/clip/blocks_siglip.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <limits>
#include <optional>
#include <utility>

#include "trireme/ops/attention/ring.h"
#include "trireme/ops/flop_count.h"

namespace trireme::blocks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Travelling data: captions, followed by their gradients from the ranks that they have passed.
class Travelling {
 public:
  Travelling(const at::Tensor& captions, comm::Group* group, bool gradients)
      : here_(gradients ? at::stack({captions, at::zeros_like(captions)}) : captions.unsqueeze(0)) {
    if (group != nullptr && group->size() > 1) ring_.emplace(*group);
  }

  int ranks() const { return ring_ ? ring_->size() : 1; }
  // Whether the captions at hand are of a rank before this one.
  bool earlier(int step) const { return ring_ && ring_->owner(step) < ring_->rank(); }
  at::Tensor captions() const { return here_[0]; }
  at::Tensor gradients() const { return here_[1]; }

  void pass(const at::Tensor& from) {
    at::Tensor next = at::empty_like(from);
    ring_->start(from, next).wait();
    here_ = std::move(next);
  }
  void pass_on() { pass(here_); }
  // After every rank's turn but the last pass, to the rank whose captions these are.
  at::Tensor gradients_home() {
    if (!ring_) return gradients();
    pass(gradients().contiguous());
    return here_;
  }

 private:
  at::Tensor here_;  // [1 or 2, rows, width]
  std::optional<ops::Ring> ring_;
};

struct Sums {
  at::Tensor loss, images, captions, scale, bias;
};

struct Nearest {
  at::Tensor own;   // each image's logit with its own caption
  at::Tensor wins;  // whether no other is greater, or as great and before it

  // The logits of absent captions are below all others.
  void see(const at::Tensor& logits, bool own_block, bool earlier) {
    const auto [most, column] = logits.max(1);
    if (own_block) {
      own = logits.diagonal().clone();
      wins = column == at::arange(logits.size(0), column.options());
    } else {
      wins = wins.logical_and(earlier ? most < own : most <= own);
    }
  }
};

// One turn round the ring.
Sums turn(const at::Tensor& images, const at::Tensor& captions, const at::Tensor& scale,
          const at::Tensor& bias, comm::Group* group, bool gradients, Nearest& nearest) {
  const at::Tensor factor = scale.exp();
  const at::Tensor gone = absent(captions);
  Sums sums{.loss = at::zeros({}, images.options())};
  if (gradients) {
    sums.images = at::zeros_like(images);
    sums.scale = at::zeros_like(scale);
    sums.bias = at::zeros_like(bias);
  }
  Travelling travelling(captions, group, gradients);
  for (int step = 0; step < travelling.ranks(); ++step) {
    if (step > 0) travelling.pass_on();
    const at::Tensor products =
        factor * ops::counted(at::matmul(images, travelling.captions().t()), images.size(1));
    constexpr double kInfinite = std::numeric_limits<double>::infinity();
    const at::Tensor away = absent(travelling.captions()).unsqueeze(0);
    const at::Tensor logits = (products + bias).masked_fill_(away, -kInfinite);
    nearest.see(logits, step == 0, travelling.earlier(step));
    at::Tensor signs = at::full_like(logits, -1);
    if (step == 0) signs.diagonal().fill_(1);
    // A pair that does not count is as far on the right side as can be: no loss and no slope.
    const at::Tensor margins =
        (signs * logits).masked_fill_(away.logical_or(gone.unsqueeze(1)), kInfinite);
    sums.loss.sub_(at::log_sigmoid(margins).sum());
    if (!gradients) continue;
    const at::Tensor slope = (signs * at::sigmoid(-margins)).neg_();
    sums.images.add_(factor *
                     ops::counted(at::matmul(slope, travelling.captions()), slope.size(1)));
    travelling.gradients().add_(factor *
                                ops::counted(at::matmul(slope.t(), images), slope.size(0)));
    sums.scale.add_((slope * products).sum());
    sums.bias.add_(slope.sum());
  }
  nearest.wins = nearest.wins.logical_and(gone.logical_not());
  if (gradients) sums.captions = travelling.gradients_home();
  return sums;
}

struct SiglipLoss : torch::autograd::Function<SiglipLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& images,
                            const at::Tensor& captions, const at::Tensor& scale,
                            const at::Tensor& bias, comm::Group* group, Nearest* nearest) {
    const Sums sums = turn(images, captions, scale, bias, group, /*gradients=*/true, *nearest);
    context->save_for_backward({sums.images, sums.captions, sums.scale, sums.bias});
    return sums.loss;
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    variable_list gradients = context->get_saved_variables();
    for (at::Tensor& one : gradients) one = one * grads[0];
    gradients.resize(6);
    return gradients;
  }
};

}  // namespace

at::Tensor absent(const at::Tensor& captions) { return captions.detach().eq(0).all(1); }

SiglipResult siglip_loss(const at::Tensor& images, const at::Tensor& captions,
                         const at::Tensor& scale, const at::Tensor& bias, comm::Group* group) {
  Nearest nearest;
  const at::Tensor loss =
      at::GradMode::is_enabled()
          ? SiglipLoss::apply(images, captions, scale, bias, group, &nearest)
          : turn(images, captions, scale, bias, group, /*gradients=*/false, nearest).loss;
  return {.loss = loss, .nearest_own = nearest.wins.sum().item<std::int64_t>()};
}

}  // namespace trireme::blocks
