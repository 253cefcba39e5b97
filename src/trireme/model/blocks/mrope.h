// How queries and keys turn where every token has a position of its own.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/config/job.h"
#include "trireme/ops/pointwise.h"

namespace trireme::blocks {

// Axis that rotates each frequency under M-RoPE, int64 [head_dim / 2]; undefined if the job has one position.
at::Tensor frequency_axes(const config::Job& job);

// A row for each token of positions [samples, tokens, 3], in which every frequency turns by its axis.
ops::RotaryTable by_axes(const ops::RotaryTable& table, const at::Tensor& positions,
                         const at::Tensor& axes);

// x [samples, tokens, ..] with every token rotated by a row of its own.
at::Tensor turned_each(const at::Tensor& x, const ops::RotaryTable& rows);

}  // namespace trireme::blocks
