// Losses that compare answers, in fp64 and without tensors: values, gradients and metrics from sums over tokens.
#pragma once

#include <array>
#include <vector>

#include "trireme/config/sections/preference.h"

namespace trireme::comparisons {

// Over the tokens of an answer.
struct AnswerSum {
  double ratio = 0;     // log-probabilities less those of the reference
  double log_prob = 0;  // log-probabilities
  double tokens = 0;
};

// The answers of a comparison, by config::Answer. Absent ones have no tokens.
using Comparison = std::array<AnswerSum, config::kAnswers>;

struct ComparisonLoss {
  double loss = 0;
  std::array<double, config::kAnswers> slopes{};  // by the log-probability of a token of an answer
};

// With w chosen, l rejected, D the sum of ratios, n tokens, m = mean log-probability:
// - dpo (Rafailov et al. 2023): -log s(z), z = beta (D_w - D_l); smoothed: the share e has -log s(-z) instead;
// - ipo (Azar et al. 2023): (D_w / n_w - D_l / n_l - 1 / (2 beta))^2;
// - simpo (Meng et al. 2024): -log s(beta (m_w - m_l) - gamma);
// - orpo (Hong et al. 2024): mean cross-entropy of the chosen answer with its prompt - beta log s(o), o the logarithm of
//   the ratio of both odds, e^m / (1 - e^m);
// - kto (Ethayarajh et al. 2024): weight (1 - s(beta (D - k))) for a wanted answer, weight (1 - s(beta (k - D))) for an
//   unwanted one, k the mean D of mismatched answers, at least 0 and without gradient.
// Shape: one loss a comparison. The mean of kto is that of `all`.
std::vector<ComparisonLoss> preference_losses(const config::Preference& preference,
                                              const std::vector<Comparison>& all);

// Sum of the losses. Those of answers that are as likely as the reference's have no rounding: n times dpo's is the
// nearest number to n ln 2.
double total_loss(const config::Preference& preference, const std::vector<ComparisonLoss>& losses);

// A number of each comparison that has one, by config::preference_metrics().
struct PreferenceMetric {
  double sum = 0;
  double of = 0;
};
std::vector<PreferenceMetric> preference_metrics(const config::Preference& preference,
                                                 const std::vector<Comparison>& all);

}  // namespace trireme::comparisons
