// Mamba-2's mixer (Dao and Gu 2024).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/exec/past.h"
#include "trireme/families/hnet/blocks_scan.h"
#include "trireme/ops/recomputed.h"
#include "trireme/ops/tensor_parallel.h"
#include "trireme/ops/weight_gradients.h"

namespace trireme::blocks {

// Its parameters, in the order of model::HnetParams.
struct MambaParams {
  at::Tensor in, taps, taps_bias, step_bias, log_rate, skip, norm, out;
};

// u -> z, x, B, C and steps by `in`; x, B and C pass a causal convolution of four rows and SiLU. With step =
// softplus(step + bias), the state S of each head decays by exp(-exp(log_rate) step) and adds step x B^T. The result is
// out(rms_norm(y SiLU(z))) with y = S C + skip x. Shapes: u [rows, d]; result the same. Computation between the layers
// is fp32 (fp64 for fp64). Heads are distributed over tp ranks; each rank has B and C, and the norm's mean is over all
// heads. With `past`, u follows earlier rows, of which `past` keeps the convolution's last inputs and the state.
at::Tensor mamba(const ops::Operand& u, const MambaParams& params, const Sequences& sequences,
                 double norm_eps, const ops::TensorParallel& tp = {},
                 const ops::WeightGradientsPtr& gradients = {}, exec::Past* past = nullptr);

}  // namespace trireme::blocks
