#include "trireme/data/loaders/tokens/cut_tokens.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "trireme/model/account/per_rank.h"

namespace trireme::loaders {

mesh::BalancedLayout token_layout(const config::Job& job, const std::vector<at::Tensor>& batch) {
  const int ranks = job.parallel.cp;
  const model::PerRank each = model::per_rank(job);
  if (!each.balances()) return {.layout = mesh::zigzag(job.model.seq_len, ranks)};
  const at::Tensor scores = (batch[2].sum(0) + batch[2].size(0)).contiguous();
  return mesh::balanced({scores.data_ptr<std::int64_t>(), static_cast<std::size_t>(scores.numel())},
                        ranks, each.exchanging());
}

std::vector<at::Tensor> cut_tokens(const config::Job& job, const std::vector<at::Tensor>& batch,
                                   const mesh::TokenLayout& layout, int rank) {
  if (layout.ranks() == 1) return batch;
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& values : batch) {
    std::vector<at::Tensor> parts;
    for (const mesh::Share& range : layout.ranges[static_cast<std::size_t>(rank)])
      parts.push_back(values.narrow(1, range.begin, range.count()));
    inputs.push_back(at::cat(parts, 1));
  }
  if (!model::per_rank(job).balances()) return inputs;
  const at::Tensor& chunks = inputs.emplace_back(
      at::empty({layout.ranks(), std::ssize(layout.ranges[0])}, batch[2].options()));
  auto* begin = chunks.data_ptr<std::int64_t>();
  for (const std::vector<mesh::Share>& ranges : layout.ranges)
    for (const mesh::Share& range : ranges) *begin++ = range.begin;
  return inputs;
}

}  // namespace trireme::loaders
