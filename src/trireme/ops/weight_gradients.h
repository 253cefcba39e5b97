// WeightGradients: the half of a backward that can wait.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace torch::autograd {
struct AutogradContext;
}

namespace trireme::ops {

// What one forward's backward owes to parameters. Pipelines without bubbles (Qi et al. 2023) compute gradients
// of activations first, which another rank waits for, and those of parameters where there would be nothing to do:
//
//   forward; defer(); backward through autograd; later run()
//
// Ops that are given one push what they owe while it defers, and return nothing to autograd: no grad() of
// a parameter is touched before run(). Pushed work keeps what it needs, x and dy of a linear layer, and none of
// autograd's graph. One thread at a time; autograd's own may push while the one that called it waits.
class WeightGradients {
 public:
  void defer() { deferring_ = true; }
  bool deferring() const { return deferring_; }
  void push(std::function<void()> work) { work_.push_back(std::move(work)); }
  // Does what was pushed, in order, and frees what each piece kept as it is done.
  void run();

 private:
  bool deferring_ = false;
  std::vector<std::function<void()>> work_;
};

// Null: never deferred.
using WeightGradientsPtr = std::shared_ptr<WeightGradients>;

inline bool deferring(const WeightGradientsPtr& gradients) {
  return gradients != nullptr && gradients->deferring();
}

// From forward to backward.
void save(torch::autograd::AutogradContext* context, const WeightGradientsPtr& gradients);
WeightGradientsPtr saved_weight_gradients(torch::autograd::AutogradContext* context);

}  // namespace trireme::ops
