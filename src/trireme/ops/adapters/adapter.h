// Low-rank adapters of linear layers (Hu et al. 2021).
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <vector>

#include "trireme/ops/pointwise.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::ops {

// Adds scale * drop(x) down^T up^T to a linear layer's result: on every rank from its part of x to its part of the
// result, as the layer's own product. The layer's exchanges serve both. A layer shared by outputs has `down` whole, one
// shared by inputs `up`; of the gradient of the whole one, every rank has a part of the sum.
struct Adapter {
  at::Tensor down{};  // A, [rank, in]; undefined: no adapter, and what follows does nothing
  at::Tensor up{};    // B, [out, rank]
  double scale = 1;
  Noise noise{};

  bool defined() const { return down.defined(); }
  bool trains() const { return defined() && down.requires_grad(); }

  // The following are the steps of an op's forward and backward; x, y and their gradients are rows.

  // scale * drop(x) down^T, [rows, rank], which backward needs again.
  at::Tensor inner(const at::Tensor& x) const;
  // y += inner up^T
  void add_to(const at::Tensor& y, const at::Tensor& inner) const;
  // scale * dy up, [rows, rank]
  at::Tensor inner_gradient(const at::Tensor& dy) const;
  // Adds the gradient of x to dx.
  void add_input_gradient(const at::Tensor& dinner, const at::Tensor& dx) const;
  // As weight_gradient. Deferred, they keep their arguments.
  at::Tensor down_gradient(const at::Tensor& dinner, const at::Tensor& x,
                           const WeightGradientsPtr& gradients = {}) const;
  at::Tensor up_gradient(const at::Tensor& dy, const at::Tensor& inner,
                         const WeightGradientsPtr& gradients = {}) const;
};

// Its two parameters, if it is defined.
inline void append(std::vector<at::Tensor>& in, const Adapter& adapter) {
  if (adapter.defined()) in.insert(in.end(), {adapter.down, adapter.up});
}

// From forward to backward.
void save(torch::autograd::AutogradContext* context, const std::vector<Adapter>& adapters);
const std::vector<Adapter>& saved_adapters(torch::autograd::AutogradContext* context);

}  // namespace trireme::ops
