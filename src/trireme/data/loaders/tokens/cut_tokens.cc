#include "trireme/data/loaders/tokens/cut_tokens.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include "trireme/model/account/per_rank.h"
#include "trireme/model/token_sharing.h"

namespace trireme::loaders {

mesh::BalancedLayout token_layout(const config::Job& job, const std::vector<at::Tensor>& batch) {
  if (!model::per_rank(job).balances()) return model::token_layout(job);
  const at::Tensor places = batch[2].contiguous();
  return model::token_layout(
      job, {places.data_ptr<std::int64_t>(), static_cast<std::size_t>(places.numel())});
}

std::vector<at::Tensor> cut_tokens(const config::Job& job, const std::vector<at::Tensor>& batch,
                                   const mesh::TokenLayout& layout, int rank) {
  if (layout.ranks() == 1) return batch;
  std::vector<at::Tensor> inputs;
  for (const at::Tensor& values : batch) {
    std::vector<at::Tensor> parts;
    for (const mesh::Share& range : layout.ranges[rank])
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
