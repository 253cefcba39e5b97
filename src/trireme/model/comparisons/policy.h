// Losses of sampled answers with rewards, in fp64 and without tensors: values, gradients and metrics.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/config/sections/preference.h"
#include "trireme/model/comparisons/losses.h"

namespace trireme::comparisons {

// Of each reward its group.
struct Rewarded {
  std::int64_t group = 0;
  double reward = 0;
};
// A = r - mean, `divided` by the sample standard deviation of the group + 1e-4 (Shao et al. 2024). A group of one answer
// has 0. Any numbers name groups; sums follow the order of the answers.
std::vector<double> advantages(std::span<const Rewarded> answers, bool divided);

struct SampledToken {
  double log_prob = 0;
  double ratio = 0;      // log-probability less the reference's
  double old_ratio = 0;  // log-probability less that of the policy that sampled
};

struct SampledAnswer {
  double advantage = 0;
  double reward = 0;
  std::vector<SampledToken> tokens;  // at least one
};

struct AnswerLoss {
  double loss = 0;             // its part of the sum
  std::vector<double> slopes;  // by the log-probability of each token
};

// With p = exp(old_ratio), q = -ratio, clip = [low, high], a token has the loss
//   -min(p A, clamp(p, 1 - low, 1 + high) A) + kl (e^q - q - 1),
// in cispo (Chen et al. 2025) -min(p, high) A log_prob + the same, the factor before log_prob without gradient; in gspo
// (Zheng et al. 2025) p is exp of the mean old_ratio of the answer. Answers of a micro-batch have the sums:
// - grpo (Shao et al. 2024), gspo: of the means over each answer, and policy_weight() counts answers;
// - bnpo: the mean over all tokens of the micro-batch, and the weight is 1;
// - dr_grpo (Liu et al. 2025): over all tokens, and the weight is answers * answer_tokens;
// - dapo (Yu et al. 2025), cispo: over all tokens, and the weight counts tokens.
// The loss of a step is the sum over all micro-batches divided by that of their weights. The first loss of an answer,
// with every p = 1 and q = 0, is -A (or -A times its tokens) without rounding.
std::vector<AnswerLoss> policy_losses(const config::Preference& policy,
                                      const std::vector<SampledAnswer>& all);
double policy_weight(const config::Preference& policy, std::int64_t answers, std::int64_t tokens);

// Means over answers (reward) and over tokens, by config::preference_metrics(): p, whether clipping stops or caps the
// gradient, e^o - o - 1 of o = old_ratio, -log_prob, and e^q - q - 1.
std::vector<PreferenceMetric> policy_metrics(const config::Preference& policy,
                                             const std::vector<SampledAnswer>& all);

}  // namespace trireme::comparisons
