#include "trireme/model/blocks/preference/answers.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/comm/tensor_buffer.h"

namespace trireme::blocks {
namespace {

at::Tensor numbers_of(const std::vector<at::Tensor>& inputs, comm::Group* group) {
  const at::Tensor own = at::empty({std::ssize(inputs), inputs[0].numel()}, inputs[2].options());
  own[kCode].copy_(inputs[1].flatten());
  own[kLogProb].copy_(inputs[0].detach().flatten()).neg_();
  for (std::int64_t i = kRatio; i < own.size(0); ++i) {
    const at::Tensor values = inputs[i].flatten();
    if (i == kRatio || i == kOldRatio)
      own[i].copy_(own[kLogProb]).sub_(values);
    else
      own[i].copy_(values);
  }
  if (group == nullptr || group->size() == 1) return own.unsqueeze(0).to(at::kCPU);
  const at::Tensor all = at::empty({group->size(), own.size(0), own.size(1)}, own.options());
  group->all_gather(comm::buffer(own), comm::buffer(all)).wait();
  return all.to(at::kCPU);
}

}  // namespace

Answers::Answers(const std::vector<at::Tensor>& inputs, comm::Group* group)
    : numbers_(numbers_of(inputs, group)),
      data_(numbers_.data_ptr<double>()),
      tokens_(numbers_.size(2) / inputs[0].size(0)) {
  const std::int64_t rows = inputs[0].size(0);
  std::vector<std::int64_t> counts(static_cast<std::size_t>(rows));
  first_.assign(counts.size() + 1, 0);  // so that answers are numbered within their rows
  for_tokens([&](const AnswerToken& token) {
    std::int64_t& count = counts[token.place / tokens_];
    count = std::max(count, token.answer + 1);
  });
  for (std::int64_t row = 0; row < rows; ++row) first_[row + 1] = first_[row] + counts[row];
}

at::Tensor Answers::zeros() const { return at::zeros({numbers_.size(2)}, numbers_.options()); }

}  // namespace trireme::blocks
