// Right operands of products of pairs in bf16 (kernels/cpu/pairs.h), with their memory.
#pragma once

#include <ATen/ops/empty.h>

#include "trireme/ops/dispatch.h"
#include "trireme/ops/kernels/cpu/matmul.h"
#include "trireme/ops/kernels/cpu/pairs.h"

namespace trireme::ops {

// A right operand and its memory.
class PackedPairs {
 public:
  PackedPairs(std::int64_t inner, std::int64_t columns)
      : memory_(at::empty({kernels::PairPanels::size(inner, columns)}, at::kInt)) {}

  void pack(const kernels::Matrix& m) {
    kernels::pair_kernels().pack(data<c10::BFloat16>(m), m.row_stride, m.rows, m.columns, place());
    shape(m.rows, m.columns);
  }
  void pack_transposed(const kernels::Matrix& m) {
    kernels::pair_kernels().pack_transposed(data<c10::BFloat16>(m), m.row_stride, m.columns, m.rows,
                                            place());
    shape(m.columns, m.rows);
  }
  const kernels::PairPanels& panels() const { return panels_; }

 private:
  std::uint32_t* place() const { return static_cast<std::uint32_t*>(memory_.data_ptr()); }
  void shape(std::int64_t inner, std::int64_t columns) {
    panels_ = {place(), kernels::round_up(inner, 2) / 2 * kernels::kPanel, columns};
  }

  at::Tensor memory_;
  kernels::PairPanels panels_;
};

}  // namespace trireme::ops
