// Mamba-2's mixer (Dao and Gu 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/exec/past.h"
#include "trireme/model/blocks/hnet/scan.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::blocks {

// Its parameters, in the order of model::HnetParams.
struct MambaParams {
  at::Tensor in, taps, taps_bias, step_bias, log_rate, skip, norm, out;
};

// u -> z, x, B, C and steps by `in`; x, B and C through a causal convolution of four rows and SiLU; with a step
// softplus(step + bias) the state of each head decays by exp(-exp(log_rate) step) and takes in step x B^T, giving
// y = S C + skip x; then out(rms_norm(y SiLU(z))). u: [rows, d]; result the same. What comes between the layers is fp32
// (fp64 for fp64). tp ranks share out the heads; each has B and C, and the norm's mean is of all. With `past`, u follows the
// rows of which that keeps the convolution's last inputs and the state.
at::Tensor mamba(const ops::Operand& u, const MambaParams& params, const Sequences& sequences,
                 double norm_eps, const ops::TensorParallel& tp = {},
                 const ops::WeightGradientsPtr& gradients = {}, exec::Past* past = nullptr);

}  // namespace trireme::blocks
