#include "trireme/ops/rows.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

std::int64_t row_dim(const at::Tensor& x) { return x.dim() - 2; }

// Of every rank.
std::vector<std::int64_t> lengths_of(const at::Tensor& own, std::int64_t dim, comm::Group& group) {
  const auto options = own.options().dtype(at::kLong);
  const at::Tensor mine = at::full({1}, own.size(dim), options),
                   all = at::empty({group.size()}, options);
  group.all_gather(comm::buffer(mine), comm::buffer(all)).wait();
  const at::Tensor lengths = all.cpu();
  return {lengths.data_ptr<std::int64_t>(), lengths.data_ptr<std::int64_t>() + lengths.numel()};
}

struct AllRows : torch::autograd::Function<AllRows> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& own, comm::Group* group) {
    const std::int64_t dim = row_dim(own);
    const std::vector<std::int64_t> lengths = lengths_of(own, dim, *group);
    context->saved_data["group"] = reinterpret_cast<std::intptr_t>(group);
    context->saved_data["lengths"] = lengths;
    const at::Tensor source = own.contiguous();
    const RankParts all(source, dim, lengths);
    group->all_gather_v(comm::buffer(source), comm::buffer(all.memory()), all.counts()).wait();
    return at::cat(all.all(), dim);
  }

  static variable_list backward(AutogradContext* context, variable_list grads) {
    auto* const group = reinterpret_cast<comm::Group*>(context->saved_data["group"].toInt());
    const std::vector<std::int64_t> lengths = context->saved_data["lengths"].toIntVector();
    const std::int64_t dim = row_dim(grads[0]);
    const RankParts all(grads[0], dim, lengths);
    std::int64_t first = 0;
    for (int rank = 0; rank < group->size(); ++rank) {
      const std::int64_t length = lengths[rank];
      all.of(rank).copy_(grads[0].narrow(dim, first, length));
      first += length;
    }
    const at::Tensor own = at::empty_like(all.of(group->rank()), at::MemoryFormat::Contiguous);
    group->reduce_scatter_v(comm::buffer(all.memory()), comm::buffer(own), all.counts()).wait();
    return {own, at::Tensor()};
  }
};

}  // namespace

RankParts::RankParts(const at::Tensor& like, std::int64_t dim,
                     const std::vector<std::int64_t>& lengths) {
  std::vector<std::int64_t> shape = like.sizes().vec();
  std::int64_t& length = shape[dim];
  for (const std::int64_t own : lengths) {
    length = own;
    counts_.push_back(1);
    for (const std::int64_t size : shape) counts_.back() *= size;
  }
  memory_ = at::empty({comm::total(counts_)}, like.options());
  std::int64_t first = 0;
  for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
    length = lengths[rank];
    parts_.push_back(memory_.narrow(0, first, counts_[rank]).view(shape));
    first += counts_[rank];
  }
}

at::Tensor own_rows(const at::Tensor& x, const comm::Group& group) {
  const std::int64_t rows = x.size(row_dim(x));
  if (rows < group.size())
    fail(ErrorKind::kData,
         "a micro-batch has {} rows (tokens or chunks) for parallel.cp={} ranks, and each needs "
         "one; raise run.micro_batch or lower parallel.cp",
         rows, group.size());
  const mesh::Share own = mesh::share(rows, group.rank(), group.size());
  return x.narrow(row_dim(x), own.begin, own.count()).clone(at::MemoryFormat::Contiguous);
}

at::Tensor all_rows(const at::Tensor& own, comm::Group& group) {
  return AllRows::apply(own, &group);
}

}  // namespace trireme::ops
