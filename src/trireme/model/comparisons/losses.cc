#include "trireme/model/comparisons/losses.h"

#include <algorithm>
#include <cmath>

namespace trireme::comparisons {
namespace {

using config::Answer;
using config::Preference;
using config::PreferenceLoss;

double sigmoid(double x) {
  return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x));
}

// -log sigmoid(x).
double log_loss(double x) { return std::max(-x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

const AnswerSum& sum_of(const Comparison& one, Answer answer) {
  return one[static_cast<std::size_t>(answer)];
}
double& slope_of(ComparisonLoss& loss, Answer answer) {
  return loss.slopes[static_cast<std::size_t>(answer)];
}

double mean(double sum, double tokens) { return tokens > 0 ? sum / tokens : 0; }

// What the loss compares of an answer, and its derivative by a token's log-probability.
struct Compared {
  double value = 0, slope = 0;
};
Compared compared(PreferenceLoss loss, const AnswerSum& answer) {
  const double each = mean(1, answer.tokens);
  switch (loss) {
    case PreferenceLoss::kDpo:
    case PreferenceLoss::kKto: return {answer.ratio, 1};
    case PreferenceLoss::kIpo: return {mean(answer.ratio, answer.tokens), each};
    default: break;
  }
  return {mean(answer.log_prob, answer.tokens), each};
}

// A loss of the difference of what is compared, with its derivative.
struct Value {
  double loss = 0, slope = 0;
};
Value of_difference(const Preference& preference, double difference) {
  const double beta = preference.beta;
  if (preference.loss == PreferenceLoss::kIpo) {
    const double apart = difference - 1 / (2 * beta);
    return {apart * apart, 2 * apart};
  }
  const double gamma = preference.loss == PreferenceLoss::kSimpo ? preference.gamma : 0;
  const double z = beta * difference - gamma, exchanged = preference.label_smoothing;
  return {(1 - exchanged) * log_loss(z) + exchanged * log_loss(-z),
          beta * (exchanged * sigmoid(z) - (1 - exchanged) * sigmoid(-z))};
}

// log(p / (1 - p)) of a mean log-probability, with its derivative. A probability of 1 has no odds: the mean is at least
// this far from 0.
Value log_odds(double mean) {
  constexpr double kNearest = -1e-9;
  const double m = std::min(mean, kNearest);
  return {m - std::log(-std::expm1(m)), -1 / std::expm1(m)};
}

ComparisonLoss odds_loss(const Preference& preference, const Comparison& one) {
  const AnswerSum &chosen = sum_of(one, Answer::kChosen), &prompt = sum_of(one, Answer::kPrompt);
  const Compared w = compared(preference.loss, chosen),
                 l = compared(preference.loss, sum_of(one, Answer::kRejected));
  const Value odds_w = log_odds(w.value), odds_l = log_odds(l.value);
  const double apart = odds_w.loss - odds_l.loss;
  const double slope = -preference.beta * sigmoid(-apart);
  const double each = mean(1, chosen.tokens + prompt.tokens);
  ComparisonLoss result{.loss = preference.beta * log_loss(apart) -
                                each * (chosen.log_prob + prompt.log_prob)};
  slope_of(result, Answer::kChosen) = slope * odds_w.slope * w.slope - each;
  slope_of(result, Answer::kRejected) = -slope * odds_l.slope * l.slope;
  slope_of(result, Answer::kPrompt) = -each;
  return result;
}

ComparisonLoss pair_loss(const Preference& preference, const Comparison& one) {
  const Compared w = compared(preference.loss, sum_of(one, Answer::kChosen)),
                 l = compared(preference.loss, sum_of(one, Answer::kRejected));
  const Value value = of_difference(preference, w.value - l.value);
  ComparisonLoss result{.loss = value.loss};
  slope_of(result, Answer::kChosen) = value.slope * w.slope;
  slope_of(result, Answer::kRejected) = -value.slope * l.slope;
  return result;
}

// The mean of mismatched answers, at least 0.
double divergence(const std::vector<Comparison>& all) {
  double sum = 0, count = 0;
  for (const Comparison& one : all) {
    const AnswerSum& mismatched = sum_of(one, Answer::kMismatched);
    sum += mismatched.ratio;
    count += mismatched.tokens > 0;
  }
  return std::max(0.0, mean(sum, count));
}

ComparisonLoss label_loss(const Preference& preference, const Comparison& one, double divergence) {
  const bool wanted = sum_of(one, Answer::kWanted).tokens > 0;
  const Answer answer = wanted ? Answer::kWanted : Answer::kUnwanted;
  const double weight = preference.label_weights[wanted ? 0 : 1];
  const double sign = wanted ? 1 : -1;
  const double z = sign * preference.beta * (sum_of(one, answer).ratio - divergence);
  ComparisonLoss result{.loss = weight * sigmoid(-z)};
  slope_of(result, answer) = -sign * weight * preference.beta * sigmoid(z) * sigmoid(-z);
  return result;
}

}  // namespace

std::vector<ComparisonLoss> preference_losses(const Preference& preference,
                                              const std::vector<Comparison>& all) {
  std::vector<ComparisonLoss> losses;
  const double apart = config::labels_answers(preference.loss) ? divergence(all) : 0;
  for (const Comparison& one : all) {
    if (config::labels_answers(preference.loss))
      losses.push_back(label_loss(preference, one, apart));
    else if (preference.loss == PreferenceLoss::kOrpo)
      losses.push_back(odds_loss(preference, one));
    else
      losses.push_back(pair_loss(preference, one));
  }
  return losses;
}

double total_loss(const Preference& preference, const std::vector<ComparisonLoss>& losses) {
  const double first = preference_losses(preference, {Comparison{}})[0].loss;
  double above = 0;
  for (const ComparisonLoss& one : losses) above += one.loss - first;
  return first * static_cast<double>(losses.size()) + above;
}

std::vector<PreferenceMetric> preference_metrics(const Preference& preference,
                                                 const std::vector<Comparison>& all) {
  std::vector<PreferenceMetric> metrics(config::preference_metrics(preference).size());
  const auto add = [&](std::size_t metric, double value, bool present = true) {
    if (!present) return;
    metrics[metric].sum += value;
    metrics[metric].of += 1;
  };
  const bool labels = config::labels_answers(preference.loss);
  for (const Comparison& one : all) {
    const AnswerSum& chosen = sum_of(one, labels ? Answer::kWanted : Answer::kChosen);
    const AnswerSum& rejected = sum_of(one, labels ? Answer::kUnwanted : Answer::kRejected);
    const double reward_w = preference.beta * compared(preference.loss, chosen).value,
                 reward_l = preference.beta * compared(preference.loss, rejected).value;
    add(0, reward_w, chosen.tokens > 0);
    add(1, reward_l, rejected.tokens > 0);
    add(2, chosen.log_prob, chosen.tokens > 0);
    add(3, rejected.log_prob, rejected.tokens > 0);
    if (labels) {
      const AnswerSum& mismatched = sum_of(one, Answer::kMismatched);
      add(4, mismatched.ratio, mismatched.tokens > 0);
      continue;
    }
    add(4, reward_w - reward_l);
    add(5, reward_w > reward_l ? 1 : 0);
    const AnswerSum& prompt = sum_of(one, Answer::kPrompt);
    if (preference.loss == PreferenceLoss::kOrpo)
      add(6, -mean(chosen.log_prob + prompt.log_prob, chosen.tokens + prompt.tokens));
  }
  return metrics;
}

}  // namespace trireme::comparisons
