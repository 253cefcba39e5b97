// Rows that ranks share: each has its mesh::share of them, in order.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "trireme/comm/group.h"

namespace trireme::ops {

// Memory in which the parts of ranks lie one after the other, as collectives have it.
class RankParts {
 public:
  // Parts with the shape and options of `like`, but with lengths[rank] along `dim`.
  RankParts(const at::Tensor& like, std::int64_t dim, const std::vector<std::int64_t>& lengths);

  const at::Tensor& memory() const { return memory_; }
  const std::vector<std::int64_t>& counts() const { return counts_; }  // elements of each rank
  const at::Tensor& of(int rank) const { return parts_[rank]; }
  const std::vector<at::Tensor>& all() const { return parts_; }

 private:
  at::Tensor memory_;
  std::vector<std::int64_t> counts_;
  std::vector<at::Tensor> parts_;
};

// This rank's rows of x, [.., rows, d] with the same rows on every rank, in memory of their own. Others get no gradient. Throws
// Error{kData} on every rank where there are fewer rows than ranks.
at::Tensor own_rows(const at::Tensor& x, const comm::Group& group);

// All ranks' rows of `own`, [.., rows, d], in rank order; ranks exchange their numbers of rows. The gradient of a
// rank's rows is the sum of what all ranks have for them. Forward and backward are collective: all-gathers, and a
// reduce-scatter in own's type.
at::Tensor all_rows(const at::Tensor& own, comm::Group& group);

}  // namespace trireme::ops
