// Elementwise ops by LibTorch's operators.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/ops/kernels/cpu/types.h"

namespace trireme::ops::aten {

at::Tensor gelu(const at::Tensor& x);

struct GeluBackward {
  at::Tensor dx;
  at::Tensor y;  // once more
};
GeluBackward gelu_backward(const at::Tensor& x, const at::Tensor& dy);

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up);

struct GatedBackward {
  at::Tensor dgate;
  at::Tensor dup;
  at::Tensor y;  // once more
};
GatedBackward swiglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy);
GatedBackward geglu_backward(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& dy);

// x: [samples, tokens, heads * width]; cosines, sines: [positions, width / 2]; `direction` -1 turns back.
at::Tensor rotate(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                  int direction);
// As kernels::PairRotation; x: [samples, tokens, heads * width].
at::Tensor rotate_pairs(const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines,
                        bool gradient);

// Elements (row, column) that `keep` keeps, int64 tensors that broadcast: the bits that our kernels draw.
at::Tensor kept(const kernels::Keep& keep, const at::Tensor& rows, const at::Tensor& columns);

// As ops::dropped.
at::Tensor dropout(const at::Tensor& x, const kernels::Keep& keep, double scale,
                   const at::Tensor& rows, std::int64_t columns = 0, std::int64_t first = 0);

}  // namespace trireme::ops::aten
