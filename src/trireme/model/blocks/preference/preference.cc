#include "trireme/model/blocks/preference/preference.h"

#include <ATen/ops/full.h>
#include <torch/csrc/autograd/custom_function.h>

#include "trireme/model/blocks/preference/answers.h"
#include "trireme/model/comparisons/losses.h"
#include "trireme/model/comparisons/policy.h"

namespace trireme::blocks {
namespace {

using comparisons::AnswerLoss;
using comparisons::AnswerSum;
using comparisons::Comparison;
using comparisons::ComparisonLoss;
using comparisons::PreferenceMetric;
using comparisons::SampledAnswer;
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

// The loss of all answers of a micro-batch.
struct AnswersLoss {
  double loss = 0;
  at::Tensor slopes;  // by each token of a rank
  std::vector<PreferenceMetric> metrics;
};

AnswersLoss compared(const config::Preference& preference, const Answers& answers, int rank) {
  std::vector<Comparison> all(static_cast<std::size_t>(answers.count()));
  answers.for_tokens([&](const AnswerToken& token) {
    AnswerSum& sum = all[token.answer][token.mark];
    sum.log_prob += answers.number(token, kLogProb);
    sum.ratio += answers.number(token, kRatio);
    sum.tokens += 1;
  });
  const std::vector<ComparisonLoss> losses = comparisons::preference_losses(preference, all);
  return {
      .loss = comparisons::total_loss(preference, losses),
      .slopes = answers.slopes(
          rank, [&](const AnswerToken& token) { return losses[token.answer].slopes[token.mark]; }),
      .metrics = comparisons::preference_metrics(preference, all)};
}

AnswersLoss rewarded(const config::Preference& policy, const Answers& answers, int rank) {
  std::vector<SampledAnswer> all(static_cast<std::size_t>(answers.count()));
  answers.for_tokens([&](const AnswerToken& token) {
    SampledAnswer& answer = all[token.answer];
    answer.advantage = answers.number(token, kAdvantage);
    answer.reward = answers.number(token, kReward);
    answer.tokens.push_back({.log_prob = answers.number(token, kLogProb),
                             .ratio = answers.number(token, kRatio),
                             .old_ratio = answers.number(token, kOldRatio)});
  });
  const std::vector<AnswerLoss> losses = comparisons::policy_losses(policy, all);
  AnswersLoss result{.metrics = comparisons::policy_metrics(policy, all)};
  for (const AnswerLoss& one : losses) result.loss += one.loss;
  std::vector<std::size_t> next(all.size());
  result.slopes = answers.slopes(rank, [&](const AnswerToken& token) {
    return losses[token.answer].slopes[next[token.answer]++];
  });
  return result;
}

}  // namespace

std::vector<at::Tensor> PreferenceLoss::forward(const std::vector<at::Tensor>& inputs,
                                                const exec::BlockContext& context) {
  comm::Group* const group = across().cp().group;
  const int rank = group == nullptr ? 0 : group->rank();
  const Answers answers(inputs, group);
  const AnswersLoss all = config::rewards_answers(preference_.loss)
                              ? rewarded(preference_, answers, rank)
                              : compared(preference_, answers, rank);
  const bool first = rank == 0;
  if (context.counts != nullptr && first)
    for (std::size_t i = 0; i < all.metrics.size(); ++i)
      context.counts->add(i, all.metrics[i].sum, all.metrics[i].of);
  const at::Tensor& token_losses = inputs[0];
  const at::Tensor slopes = all.slopes.view(token_losses.sizes());
  return {KnownLoss::apply(token_losses, slopes.to(token_losses.device()), first ? all.loss : 0.0)};
}

}  // namespace trireme::blocks
