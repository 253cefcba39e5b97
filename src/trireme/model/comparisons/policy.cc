#include "trireme/model/comparisons/policy.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace trireme::comparisons {
namespace {

using config::Preference;
using config::PreferenceLoss;

// e^x - x - 1, which is never negative.
double divergence(double x) { return std::max(std::expm1(x) - x, 0.0); }

bool averages_answers(PreferenceLoss loss) {
  return loss == PreferenceLoss::kGrpo || loss == PreferenceLoss::kGspo;
}

// What a ratio of probabilities contributes, with its derivative by the ratio's logarithm.
struct Surrogate {
  double loss = 0, slope = 0;
  bool clipped = false;
};

// No gain is without a loss, whatever the ratio.
Surrogate clipped_surrogate(const Preference& policy, double log_ratio, double advantage) {
  if (advantage == 0) return {};
  const double ratio = std::exp(log_ratio);
  const double within = std::clamp(ratio, 1 - policy.clip[0], 1 + policy.clip[1]);
  if (ratio * advantage <= within * advantage)
    return {.loss = -ratio * advantage, .slope = -ratio * advantage};
  return {.loss = -within * advantage, .clipped = true};
}

// The factor of a log-probability in cispo.
Surrogate capped_surrogate(const Preference& policy, const SampledToken& token, double advantage) {
  const double ratio = std::exp(token.old_ratio);
  const double factor = advantage == 0 ? 0 : -std::min(ratio, policy.clip[1]) * advantage;
  return {.loss = factor * token.log_prob,
          .slope = factor,
          .clipped = advantage != 0 && ratio > policy.clip[1]};
}

double mean_log_ratio(const SampledAnswer& answer) {
  double sum = 0;
  for (const SampledToken& token : answer.tokens) sum += token.old_ratio;
  return sum / static_cast<double>(answer.tokens.size());
}

// The surrogates of the tokens of an answer. The derivative of a mean log-ratio by each of its tokens is divided among
// them by the mean over the answer, which gspo has.
std::vector<Surrogate> surrogates(const Preference& policy, const SampledAnswer& answer) {
  std::vector<Surrogate> all;
  if (policy.loss == PreferenceLoss::kGspo) {
    all.assign(answer.tokens.size(),
               clipped_surrogate(policy, mean_log_ratio(answer), answer.advantage));
    return all;
  }
  for (const SampledToken& token : answer.tokens)
    all.push_back(policy.loss == PreferenceLoss::kCispo
                      ? capped_surrogate(policy, token, answer.advantage)
                      : clipped_surrogate(policy, token.old_ratio, answer.advantage));
  return all;
}

// The loss of an answer whose tokens count `each`.
AnswerLoss answer_loss(const Preference& policy, const SampledAnswer& answer, double each) {
  const std::vector<Surrogate> own = surrogates(policy, answer);
  // A first loss without rounding: the sum begins with it, and has what lies above.
  const double first = policy.loss == PreferenceLoss::kCispo ? 0 : -answer.advantage;
  AnswerLoss result;
  double above = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    double loss = own[i].loss - first, slope = own[i].slope;
    if (policy.kl > 0) {
      const double apart = -answer.tokens[i].ratio;
      loss += policy.kl * divergence(apart);
      slope -= policy.kl * std::expm1(apart);
    }
    above += loss;
    result.slopes.push_back(each * slope);
  }
  const double counted = averages_answers(policy.loss) ? 1 : each * static_cast<double>(own.size());
  result.loss = first * counted + each * above;
  return result;
}

std::size_t tokens_of(const std::vector<SampledAnswer>& all) {
  std::size_t tokens = 0;
  for (const SampledAnswer& answer : all) tokens += answer.tokens.size();
  return tokens;
}

}  // namespace

std::vector<double> advantages(std::span<const Rewarded> answers, bool divided) {
  // Sums are taken above the first reward, so that equal ones have no rounding.
  struct Group {
    double first = 0, count = 0, above = 0, squares = 0;
    double mean() const { return first + above / count; }
  };
  std::map<std::int64_t, Group> groups;
  for (const Rewarded& answer : answers) {
    Group& group = groups.try_emplace(answer.group, Group{.first = answer.reward}).first->second;
    group.count += 1;
    group.above += answer.reward - group.first;
  }
  for (const Rewarded& answer : answers) {
    Group& group = groups[answer.group];
    const double apart = answer.reward - group.mean();
    group.squares += apart * apart;
  }
  constexpr double kLeast = 1e-4;
  std::vector<double> all;
  for (const Rewarded& answer : answers) {
    const Group& group = groups[answer.group];
    const double deviation = group.count > 1 ? std::sqrt(group.squares / (group.count - 1)) : 0;
    const double apart = answer.reward - group.mean();
    all.push_back(divided ? apart / (deviation + kLeast) : apart);
  }
  return all;
}

std::vector<AnswerLoss> policy_losses(const Preference& policy,
                                      const std::vector<SampledAnswer>& all) {
  const auto tokens = static_cast<double>(tokens_of(all));
  std::vector<AnswerLoss> losses;
  for (const SampledAnswer& answer : all) {
    double each = 1;
    if (averages_answers(policy.loss)) each = 1 / static_cast<double>(answer.tokens.size());
    if (policy.loss == PreferenceLoss::kBnpo) each = 1 / tokens;
    losses.push_back(answer_loss(policy, answer, each));
  }
  return losses;
}

double policy_weight(const Preference& policy, std::int64_t answers, std::int64_t tokens) {
  switch (policy.loss) {
    case PreferenceLoss::kBnpo: return answers > 0 ? 1 : 0;
    case PreferenceLoss::kDrGrpo: return static_cast<double>(answers * policy.answer_tokens);
    case PreferenceLoss::kDapo:
    case PreferenceLoss::kCispo: return static_cast<double>(tokens);
    default: return static_cast<double>(answers);
  }
}

std::vector<PreferenceMetric> policy_metrics(const Preference& policy,
                                             const std::vector<SampledAnswer>& all) {
  std::vector<PreferenceMetric> metrics(config::preference_metrics(policy).size());
  const auto add = [&](std::size_t metric, double value) {
    metrics[metric].sum += value;
    metrics[metric].of += 1;
  };
  for (const SampledAnswer& answer : all) {
    add(0, answer.reward);
    const std::vector<Surrogate> own = surrogates(policy, answer);
    const bool shared = policy.loss == PreferenceLoss::kGspo;
    const double mean = shared ? mean_log_ratio(answer) : 0;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const SampledToken& token = answer.tokens[i];
      add(1, std::exp(shared ? mean : token.old_ratio));
      add(2, own[i].clipped ? 1 : 0);
      add(3, divergence(token.old_ratio));
      add(4, -token.log_prob);
      if (policy.kl > 0) add(5, divergence(-token.ratio));
    }
  }
  return metrics;
}

}  // namespace trireme::comparisons
