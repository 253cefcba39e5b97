// WeightGradients: what one backward gives to parameters: where it adds, and the half of it that can wait.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "trireme/ops/gradient_target.h"

namespace torch::autograd {
struct AutogradContext;
}

namespace trireme::ops {

class WeightGradients;
// Null: never deferred, and every sum holds numbers.
using WeightGradientsPtr = std::shared_ptr<WeightGradients>;

// Gradients of one forward and its backward, given to the ops of both.
//
//   forward; begin() of sums that hold nothing yet; backward through autograd; settle()
//
// Zero-bubble pipelines (Qi et al. 2023) compute gradients of activations first, because another rank waits for them,
// and those of parameters in idle time:
//
//   forward; defer(); backward through autograd; later begin(), run(), settle()
//
// While it defers, ops push their weight gradients to it and return nothing to autograd: no grad() of a parameter is
// touched before run(). Pushed work keeps what it needs, x and dy of a linear layer, and none of autograd's graph. One
// thread at a time; autograd's own may push while the one that called it waits.
class WeightGradients : public std::enable_shared_from_this<WeightGradients> {
 public:
  void defer() { deferring_ = true; }
  bool deferring() const { return deferring_; }
  void push(std::function<void(const WeightGradientsPtr&)> work) {
    work_.push_back(std::move(work));
  }
  // Computes all pushed gradients, in order, and frees the inputs of each when it is done. Defers no more.
  void run();

  // Called by an op in its forward for a parameter whose gradient its backward adds to target() as a whole. Every other
  // op of this forward that uses the parameter has to be given this, too.
  void adds_in_place(const at::Tensor& param);
  // From here on the parameter's grad() counts as zeros, whatever its bytes are. They are zeroed but where an op has
  // said adds_in_place(): what it writes first replaces them.
  void begin(const at::Tensor& param);
  // Where to add now. It counts as written from here on: the caller writes all of it at once. Throws if another has added
  // to what still waited for an op.
  GradientTarget target(const at::Tensor& param);
  // After the backward every sum is numbers: zeroed if nothing has come. Throws as target().
  void settle();

 private:
  struct State {
    bool written = true;
    at::Tensor sum{};           // until it is written
    std::uint32_t version = 0;  // of it when it began
    // Whether it holds numbers, which it does from now on. Autograd's sums change the version, our kernels do not.
    bool take();
  };

  bool deferring_ = false;
  std::vector<std::function<void(const WeightGradientsPtr&)>> work_;
  std::unordered_map<const c10::TensorImpl*, State> in_place_;  // by parameter
};

inline bool deferring(const WeightGradientsPtr& gradients) {
  return gradients != nullptr && gradients->deferring();
}

// As the members; `gradients` may be null. Undefined where the parameter has no gradient_sum().
void adds_in_place(const at::Tensor& param, const WeightGradientsPtr& gradients);
GradientTarget gradient_target(const at::Tensor& param, const WeightGradientsPtr& gradients);

// From forward to backward.
void save(torch::autograd::AutogradContext* context, const WeightGradientsPtr& gradients);
WeightGradientsPtr saved_weight_gradients(torch::autograd::AutogradContext* context);

}  // namespace trireme::ops
