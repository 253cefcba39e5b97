#include "trireme/model/blocks/preference/preference.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/model/comparisons/losses.h"

namespace trireme::blocks {
namespace {

using comparisons::AnswerSum;
using comparisons::Comparison;
using comparisons::ComparisonLoss;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A loss that is known, with its derivative by the log-probability of each token.
struct KnownLoss : torch::autograd::Function<KnownLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& token_losses,
                            const at::Tensor& slopes, double loss) {
    context->save_for_backward({slopes});
    context->saved_data["type"] = token_losses.scalar_type();
    return at::full({}, loss, slopes.options());
  }
  static variable_list backward(AutogradContext* context, variable_list grads) {
    const at::Tensor slopes = context->get_saved_variables()[0];
    return {slopes.mul(grads[0].neg()).to(context->saved_data["type"].toScalarType()), at::Tensor(),
            at::Tensor()};
  }
};

enum Number { kCode, kLogProb, kRatio };

// Of each token of each rank of a sequence, [ranks, 3, tokens] in fp64 on the CPU.
at::Tensor numbers_of(const std::vector<at::Tensor>& inputs, comm::Group* group) {
  const at::Tensor own = at::empty({3, inputs[0].numel()}, inputs[2].options());
  own[kCode].copy_(inputs[1].flatten());
  own[kLogProb].copy_(inputs[0].detach().flatten()).neg_();
  own[kRatio].copy_(own[kLogProb]).sub_(inputs[2].flatten());
  if (group == nullptr || group->size() == 1) return own.unsqueeze(0).to(at::kCPU);
  const at::Tensor all = at::empty({group->size(), own.size(0), own.size(1)}, own.options());
  group->all_gather(comm::buffer(own), comm::buffer(all)).wait();
  return all.to(at::kCPU);
}

// The comparisons of a micro-batch in the order of its rows.
class Comparisons {
 public:
  Comparisons(const at::Tensor& numbers, std::int64_t samples)
      : numbers_(numbers), tokens_(numbers.size(2) / samples) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(samples));
    for_answers([&](std::int64_t row, std::int64_t code, const double*) {
      counts[row] = std::max(counts[row], code / config::kAnswers + 1);
    });
    first_.push_back(0);
    for (const std::int64_t count : counts) first_.push_back(first_.back() + count);
    all_.resize(static_cast<std::size_t>(first_.back()));
    for_answers([&](std::int64_t row, std::int64_t code, const double* number) {
      AnswerSum& sum = all_[first_[row] + code / config::kAnswers][code % config::kAnswers];
      sum.log_prob += number[kLogProb * numbers_.size(2)];
      sum.ratio += number[kRatio * numbers_.size(2)];
      sum.tokens += 1;
    });
  }

  const std::vector<Comparison>& all() const { return all_; }

  // The derivative by each token of a rank, from those of each comparison.
  at::Tensor slopes(int rank, const std::vector<ComparisonLoss>& losses) const {
    const at::Tensor slopes = at::empty({numbers_.size(2)}, numbers_.options());
    const double* const codes = numbers_[rank][kCode].data_ptr<double>();
    for (std::int64_t i = 0; i < slopes.numel(); ++i) {
      const auto code = static_cast<std::int64_t>(codes[i]);
      slopes.data_ptr<double>()[i] = code == 0
                                         ? 0
                                         : losses[first_[i / tokens_] + code / config::kAnswers]
                                               .slopes[code % config::kAnswers];
    }
    return slopes;
  }

 private:
  // Calls body(row, code, numbers of the token, each numbers_.size(2) after the one before) for tokens of answers.
  template <typename Body>
  void for_answers(const Body& body) const {
    for (std::int64_t rank = 0; rank < numbers_.size(0); ++rank) {
      const double* const number = numbers_[rank].data_ptr<double>();
      for (std::int64_t i = 0; i < numbers_.size(2); ++i)
        if (number[i] != 0) body(i / tokens_, static_cast<std::int64_t>(number[i]), number + i);
    }
  }

  at::Tensor numbers_;
  std::int64_t tokens_;              // of a row, on a rank
  std::vector<std::int64_t> first_;  // comparison of each row
  std::vector<Comparison> all_;
};

}  // namespace

std::vector<at::Tensor> PreferenceLoss::forward(const std::vector<at::Tensor>& inputs,
                                                const exec::BlockContext& context) {
  comm::Group* const group = across().cp().group;
  const int rank = group == nullptr ? 0 : group->rank();
  const at::Tensor& token_losses = inputs[0];
  const Comparisons compared(numbers_of(inputs, group), token_losses.size(0));
  const std::vector<ComparisonLoss> losses =
      comparisons::preference_losses(preference_, compared.all());
  const bool first = rank == 0;
  if (context.counts != nullptr && first) {
    const auto metrics = comparisons::preference_metrics(preference_, compared.all());
    for (std::size_t i = 0; i < metrics.size(); ++i)
      context.counts->add(i, metrics[i].sum, metrics[i].of);
  }
  const at::Tensor slopes = compared.slopes(rank, losses).view(token_losses.sizes());
  return {KnownLoss::apply(token_losses, slopes.to(token_losses.device()),
                           first ? comparisons::total_loss(preference_, losses) : 0.0)};
}

}  // namespace trireme::blocks
