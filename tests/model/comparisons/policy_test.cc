// Policy losses against numbers by hand, their gradients against finite differences, and their exact beginnings.
#include "trireme/model/comparisons/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace trireme::comparisons::policy_test {
namespace {

using config::AdvantageScale;
using config::Preference;
using config::PreferenceLoss;
using testing::ElementsAre;

constexpr PreferenceLoss kAll[] = {PreferenceLoss::kGrpo,   PreferenceLoss::kBnpo,
                                   PreferenceLoss::kDrGrpo, PreferenceLoss::kDapo,
                                   PreferenceLoss::kCispo,  PreferenceLoss::kGspo};

Preference policy(PreferenceLoss loss, double kl = 0) {
  Preference made;
  made.loss = loss;
  made.kl = kl;
  made.clip = config::usual_clip(loss);
  made.answer_tokens = 10;
  return made;
}

// A token with these log-probabilities: now, of the sampler, of the reference.
SampledToken token(double now, double old, double reference) {
  return {.log_prob = now, .ratio = now - reference, .old_ratio = now - old};
}

// Two answers of 2 and 3 tokens: ratios 1.5, 1, 0.5, 1.1 and 2 (up to rounding).
std::vector<SampledAnswer> answers() {
  return {{.advantage = 2,
           .reward = 1,
           .tokens = {token(-1 + std::log(1.5), -1, -1.2), token(-2, -2, -1.5)}},
          {.advantage = -1,
           .reward = 0.25,
           .tokens = {token(-3 + std::log(0.5), -3, -3), token(-1 + std::log(1.1), -1, -2),
                      token(-4 + std::log(2), -4, -4)}}};
}

double sum_of(const std::vector<AnswerLoss>& losses) {
  double sum = 0;
  for (const AnswerLoss& one : losses) sum += one.loss;
  return sum;
}
// The loss of a step that has these micro-batches.
double step(const Preference& preference,
            const std::vector<std::vector<SampledAnswer>>& micro_batches) {
  double loss = 0, weight = 0;
  for (const std::vector<SampledAnswer>& all : micro_batches) {
    std::int64_t tokens = 0;
    for (const SampledAnswer& answer : all) tokens += std::ssize(answer.tokens);
    loss += sum_of(policy_losses(preference, all));
    weight += policy_weight(preference, std::ssize(all), tokens);
  }
  return loss / weight;
}

TEST(Advantages, AreStandardScoresOfAGroup) {
  // Rewards 1, 0, 0.5 of one prompt have mean 0.5 and sample deviation 0.5; the order of groups does not matter.
  const std::vector<Rewarded> all = {{7, 1}, {3, 4}, {7, 0}, {3, 4}, {7, 0.5}, {9, 2}};
  const std::vector<double> scored = advantages(all, true), centred = advantages(all, false);
  EXPECT_DOUBLE_EQ(scored[0], 0.5 / 0.5001);
  EXPECT_DOUBLE_EQ(scored[2], -0.5 / 0.5001);
  EXPECT_THAT(centred, ElementsAre(0.5, 0, -0.5, 0, 0, 0));
  for (const std::size_t equal : {1, 3, 4, 5}) EXPECT_EQ(scored[equal], 0);
  // One of four succeeds: deviation sqrt(3 / 4 / 3) = 1 / 2.
  const std::vector<double> one =
      advantages(std::vector<Rewarded>{{0, 1}, {0, 0}, {0, 0}, {0, 0}}, true);
  EXPECT_DOUBLE_EQ(one[0], 0.75 / 0.5001);
  EXPECT_DOUBLE_EQ(one[1], -0.25 / 0.5001);
}

// Equal rewards that no sum keeps exactly give no gradient.
TEST(Advantages, OfEqualRewardsAreExactlyZero) {
  for (const bool divided : {true, false})
    EXPECT_THAT(advantages(std::vector<Rewarded>{{0, 0.1}, {0, 0.1}, {0, 0.1}}, divided),
                ElementsAre(0, 0, 0));
}

// Token losses with clip 0.2: -min(3, 2.4), -2 for A = 2; for A = -1: max(0.5, 0.8), 1.1, 2.
constexpr double kFirst[] = {-2.4, -2}, kSecond[] = {0.8, 1.1, 2};

TEST(PolicyLosses, AreAggregatedAsInTheirPapers) {
  const double first = kFirst[0] + kFirst[1], second = kSecond[0] + kSecond[1] + kSecond[2];
  EXPECT_NEAR(step(policy(PreferenceLoss::kGrpo), {answers()}), (first / 2 + second / 3) / 2,
              1e-14);
  EXPECT_NEAR(step(policy(PreferenceLoss::kBnpo), {answers()}), (first + second) / 5, 1e-14);
  EXPECT_NEAR(step(policy(PreferenceLoss::kDrGrpo), {answers()}), (first + second) / (2 * 10),
              1e-14);
  Preference dapo = policy(PreferenceLoss::kDapo);
  EXPECT_EQ(dapo.clip, (std::array{0.2, 0.28}));
  EXPECT_NEAR(step(dapo, {answers()}), (-2 * 1.28 - 2 + second) / 5, 1e-14);
  // cispo: -min(p, 5) A log p; nothing is capped.
  const std::vector<SampledAnswer> all = answers();
  double cispo = 0;
  for (const SampledAnswer& answer : all)
    for (const SampledToken& one : answer.tokens)
      cispo -= std::exp(one.old_ratio) * answer.advantage * one.log_prob;
  EXPECT_NEAR(step(policy(PreferenceLoss::kCispo), {all}), cispo / 5, 1e-14);
  // gspo: ratios sqrt(1.5) and cbrt(1.1) leave [1 - 3e-4, 1 + 4e-4] above; the second one's A < 0 keeps its.
  EXPECT_NEAR(step(policy(PreferenceLoss::kGspo), {all}), (-2 * 1.0004 + std::cbrt(1.1)) / 2,
              1e-14);
}

// Two micro-batches: bnpo means each, dapo divides by the tokens of both.
TEST(PolicyLosses, MicroBatchesMeetInTheWeights) {
  const std::vector<SampledAnswer> all = answers();
  const std::vector<std::vector<SampledAnswer>> two = {{all[0]}, {all[1]}};
  const double first = kFirst[0] + kFirst[1], second = kSecond[0] + kSecond[1] + kSecond[2];
  EXPECT_NEAR(step(policy(PreferenceLoss::kBnpo), two), (first / 2 + second / 3) / 2, 1e-14);
  for (const PreferenceLoss loss : kAll)
    if (loss != PreferenceLoss::kBnpo) {
      EXPECT_NEAR(step(policy(loss), two), step(policy(loss), {all}), 1e-14) << name(loss);
    }
  Preference dapo = policy(PreferenceLoss::kDapo);
  dapo.clip = {0.2, 0.2};
  EXPECT_NEAR(step(dapo, two), (first + second) / 5, 1e-14);
}

TEST(PolicyLosses, TheReferenceAddsADivergence) {
  // e^q - q - 1 of q = reference - now.
  const auto k3 = [](double q) { return std::exp(q) - q - 1; };
  const double first = k3(-0.2 - std::log(1.5)) + k3(0.5),
               second = k3(-std::log(0.5)) + k3(-1 - std::log(1.1)) + k3(-std::log(2));
  const auto added = [&](PreferenceLoss loss) {
    return step(policy(loss, 0.3), {answers()}) - step(policy(loss), {answers()});
  };
  for (const PreferenceLoss loss : {PreferenceLoss::kGrpo, PreferenceLoss::kGspo})
    EXPECT_NEAR(added(loss), 0.3 * (first / 2 + second / 3) / 2, 1e-13) << name(loss);
  for (const PreferenceLoss loss :
       {PreferenceLoss::kBnpo, PreferenceLoss::kDapo, PreferenceLoss::kCispo})
    EXPECT_NEAR(added(loss), 0.3 * (first + second) / 5, 1e-13) << name(loss);
  EXPECT_NEAR(added(PreferenceLoss::kDrGrpo), 0.3 * (first + second) / 20, 1e-13);
}

// By the log-probability of a token; cispo holds the factor of a log-probability.
TEST(PolicyLosses, SlopesAreFiniteDifferences) {
  for (const PreferenceLoss loss : kAll)
    for (const double kl : {0.0, 0.3}) {
      const Preference one = policy(loss, kl);
      std::vector<SampledAnswer> all = answers();
      if (loss == PreferenceLoss::kGspo)  // within its narrow clip
        for (SampledAnswer& answer : all)
          for (SampledToken& token : answer.tokens) token.old_ratio *= 1e-4;
      const std::vector<AnswerLoss> losses = policy_losses(one, all);
      for (std::size_t i = 0; i < all.size(); ++i)
        for (std::size_t k = 0; k < all[i].tokens.size(); ++k) {
          constexpr double kStep = 1e-6;
          const auto moved = [&](double by) {
            std::vector<SampledAnswer> other = all;
            SampledToken& token = other[i].tokens[k];
            token.log_prob += by;
            token.ratio += by;
            if (loss != PreferenceLoss::kCispo) token.old_ratio += by;
            return sum_of(policy_losses(one, other));
          };
          const double expected = (moved(kStep) - moved(-kStep)) / (2 * kStep);
          EXPECT_NEAR(losses[i].slopes[k], expected, 1e-8) << name(loss) << " " << i << " " << k;
        }
    }
}

// With every ratio 1 the loss is -A to the last bit, and 0 if the advantages cancel.
TEST(PolicyLosses, BeginExactly) {
  const std::vector<double> scores =
      advantages(std::vector<Rewarded>{{0, 1}, {0, 0}, {1, 3}, {1, 0.5}}, true);
  std::vector<SampledAnswer> all;
  for (std::size_t i = 0; i < scores.size(); ++i)
    all.push_back({.advantage = scores[i],
                   .reward = 0,
                   .tokens = std::vector<SampledToken>(3 + 4 * i, token(-1.7, -1.7, -1.7))});
  for (const PreferenceLoss loss : {PreferenceLoss::kGrpo, PreferenceLoss::kGspo}) {
    const std::vector<AnswerLoss> losses = policy_losses(policy(loss, 0.04), all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(losses[i].loss, -scores[i]);
      EXPECT_DOUBLE_EQ(losses[i].slopes[0], -scores[i] / static_cast<double>(3 + 4 * i));
    }
    EXPECT_EQ(sum_of(losses), 0);
  }
  const std::vector<AnswerLoss> dapo = policy_losses(policy(PreferenceLoss::kDapo), all);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(dapo[i].loss, -scores[i] * static_cast<double>(3 + 4 * i));
}

TEST(PolicyLosses, ClippingStopsOneDirection) {
  const Preference grpo = policy(PreferenceLoss::kGrpo);
  const auto slope = [&](double advantage, double ratio) {
    const SampledAnswer one{
        .advantage = advantage, .reward = 0, .tokens = {token(-1, -1 - std::log(ratio), -1)}};
    return policy_losses(grpo, {one})[0].slopes[0];
  };
  EXPECT_EQ(slope(1, 1.21), 0);
  EXPECT_NEAR(slope(1, 1.19), -1.19, 1e-14);
  EXPECT_NEAR(slope(1, 0.1), -0.1, 1e-14);
  EXPECT_EQ(slope(-1, 0.79), 0);
  EXPECT_NEAR(slope(-1, 3), 3, 1e-14);
  EXPECT_EQ(slope(0, 1e9), 0);
}

// A ratio beyond all numbers spoils nothing where the advantage is 0.
TEST(PolicyLosses, NoGainHasNoLoss) {
  const SampledAnswer far{.advantage = 0, .reward = 0, .tokens = {token(0, -1e4, 0)}};
  for (const PreferenceLoss loss : kAll) {
    const std::vector<AnswerLoss> losses = policy_losses(policy(loss), {far});
    EXPECT_EQ(losses[0].loss, 0) << name(loss);
    EXPECT_EQ(losses[0].slopes[0], 0) << name(loss);
  }
}

TEST(PolicyLosses, MetricsAreMeans) {
  const auto mean = [](const PreferenceMetric& one) { return one.sum / one.of; };
  const auto grpo = policy_metrics(policy(PreferenceLoss::kGrpo, 0.1), answers());
  ASSERT_EQ(grpo.size(), config::preference_metrics(policy(PreferenceLoss::kGrpo, 0.1)).size());
  EXPECT_NEAR(mean(grpo[0]), 0.625, 1e-15);
  EXPECT_NEAR(mean(grpo[1]), (1.5 + 1 + 0.5 + 1.1 + 2) / 5, 1e-14);
  EXPECT_EQ(mean(grpo[2]), 2. / 5);  // 1.5 with A > 0, 0.5 with A < 0
  const auto k3 = [](double x) { return std::exp(x) - x - 1; };
  EXPECT_NEAR(mean(grpo[3]),
              (k3(std::log(1.5)) + k3(std::log(0.5)) + k3(std::log(1.1)) + k3(std::log(2))) / 5,
              1e-14);
  EXPECT_NEAR(mean(grpo[4]), (11 - std::log(1.5 * 0.5 * 1.1 * 2)) / 5, 1e-14);
  EXPECT_EQ(policy_metrics(policy(PreferenceLoss::kGrpo), answers()).size(), 5u);
  const auto gspo = policy_metrics(policy(PreferenceLoss::kGspo), answers());
  EXPECT_NEAR(mean(gspo[1]), (2 * std::sqrt(1.5) + 3 * std::cbrt(1.1)) / 5, 1e-14);
  EXPECT_EQ(mean(gspo[2]), 2. / 5);
}

}  // namespace
}  // namespace trireme::comparisons::policy_test
