#include "trireme/model/comparisons/losses.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace trireme::comparisons::losses_test {
namespace {

using config::Answer;
using config::Preference;
using config::PreferenceLoss;

AnswerSum& sum(Comparison& one, Answer answer) { return one[static_cast<std::size_t>(answer)]; }

// Two pairs of answers with unlike lengths.
std::vector<Comparison> pairs() {
  std::vector<Comparison> all(2);
  sum(all[0], Answer::kChosen) = {.ratio = 0.7, .log_prob = -6, .tokens = 4};
  sum(all[0], Answer::kRejected) = {.ratio = -0.4, .log_prob = -9, .tokens = 5};
  sum(all[0], Answer::kPrompt) = {.ratio = 0, .log_prob = -3, .tokens = 2};
  sum(all[1], Answer::kChosen) = {.ratio = -2.5, .log_prob = -20, .tokens = 8};
  sum(all[1], Answer::kRejected) = {.ratio = 1.5, .log_prob = -2, .tokens = 3};
  sum(all[1], Answer::kPrompt) = {.ratio = 0, .log_prob = -5, .tokens = 5};
  return all;
}

std::vector<Comparison> labelled() {
  std::vector<Comparison> all(3);
  sum(all[0], Answer::kWanted) = {.ratio = 0.8, .log_prob = -4, .tokens = 3};
  sum(all[0], Answer::kMismatched) = {.ratio = 0.9, .log_prob = -8, .tokens = 2};
  sum(all[1], Answer::kUnwanted) = {.ratio = -0.3, .log_prob = -5, .tokens = 4};
  sum(all[1], Answer::kMismatched) = {.ratio = -0.1, .log_prob = -7, .tokens = 3};
  sum(all[2], Answer::kUnwanted) = {.ratio = 1.2, .log_prob = -3, .tokens = 2};
  sum(all[2], Answer::kMismatched) = {.ratio = 0.4, .log_prob = -6, .tokens = 4};
  return all;
}

Preference preference(PreferenceLoss loss, double beta = 0.1) {
  Preference made;
  made.loss = loss;
  made.beta = beta;
  return made;
}

double s(double x) { return 1 / (1 + std::exp(-x)); }

TEST(PreferenceLosses, AreThoseOfThePapers) {
  const std::vector<Comparison> all = pairs();
  const auto expect = [&](const Preference& preference, double first, double second) {
    const std::vector<ComparisonLoss> losses = preference_losses(preference, all);
    EXPECT_NEAR(losses[0].loss, first, 1e-13) << name(preference.loss);
    EXPECT_NEAR(losses[1].loss, second, 1e-13) << name(preference.loss);
    EXPECT_NEAR(total_loss(preference, losses), first + second, 1e-13);
  };
  expect(preference(PreferenceLoss::kDpo), -std::log(s(0.1 * 1.1)), -std::log(s(0.1 * -4)));
  Preference smooth = preference(PreferenceLoss::kDpo, 0.5);
  smooth.label_smoothing = 0.2;
  expect(smooth, -0.8 * std::log(s(0.55)) - 0.2 * std::log(s(-0.55)),
         -0.8 * std::log(s(-2)) - 0.2 * std::log(s(2)));
  expect(preference(PreferenceLoss::kIpo), std::pow(0.7 / 4 + 0.4 / 5 - 5, 2),
         std::pow(-2.5 / 8 - 1.5 / 3 - 5, 2));
  Preference simpo = preference(PreferenceLoss::kSimpo, 2);
  simpo.gamma = 0.5;
  expect(simpo, -std::log(s(2 * (-6. / 4 + 9. / 5) - 0.5)),
         -std::log(s(2 * (-20. / 8 + 2. / 3) - 0.5)));
  const auto orpo = [](double w, double l, double nll) {
    const double odds_w = std::exp(w) / (1 - std::exp(w)), odds_l = std::exp(l) / (1 - std::exp(l));
    return nll - 0.1 * std::log(s(std::log(odds_w / odds_l)));
  };
  expect(preference(PreferenceLoss::kOrpo), orpo(-6. / 4, -9. / 5, 9. / 6),
         orpo(-20. / 8, -2. / 3, 25. / 13));
}

TEST(PreferenceLosses, LabelsAreComparedWithMismatchedAnswers) {
  Preference kto = preference(PreferenceLoss::kKto, 0.5);
  kto.label_weights = {1.5, 0.75};
  const double k = (0.9 - 0.1 + 0.4) / 3;
  const std::vector<ComparisonLoss> losses = preference_losses(kto, labelled());
  EXPECT_NEAR(losses[0].loss, 1.5 * (1 - s(0.5 * (0.8 - k))), 1e-14);
  EXPECT_NEAR(losses[1].loss, 0.75 * (1 - s(0.5 * (k + 0.3))), 1e-14);
  EXPECT_NEAR(losses[2].loss, 0.75 * (1 - s(0.5 * (k - 1.2))), 1e-14);
  std::vector<Comparison> less = labelled();
  sum(less[0], Answer::kMismatched).ratio = -3;  // the mean is below 0
  EXPECT_NEAR(preference_losses(kto, less)[0].loss, 1.5 * (1 - s(0.5 * 0.8)), 1e-14);
}

// Equal answers of the model and its reference: no rounding, whatever their number.
TEST(PreferenceLosses, BeginExactly) {
  const Preference dpo = preference(PreferenceLoss::kDpo, 0.3);
  for (const std::size_t count : {1u, 2u, 4u, 64u, 1024u}) {
    const auto losses = preference_losses(dpo, std::vector<Comparison>(count));
    EXPECT_EQ(total_loss(dpo, losses) / static_cast<double>(count), M_LN2) << count;
  }
  EXPECT_EQ(preference_losses(preference(PreferenceLoss::kIpo), {Comparison{}})[0].loss, 25);
  EXPECT_EQ(preference_losses(preference(PreferenceLoss::kKto), {Comparison{}})[0].loss, 0.5);
}

// A token's log-probability moves the sums of its answer; mismatched answers have no gradient.
TEST(PreferenceLosses, SlopesAreFiniteDifferences) {
  for (const PreferenceLoss loss :
       {PreferenceLoss::kDpo, PreferenceLoss::kIpo, PreferenceLoss::kSimpo, PreferenceLoss::kOrpo,
        PreferenceLoss::kKto}) {
    Preference one = preference(loss, 0.4);
    if (loss == PreferenceLoss::kDpo) one.label_smoothing = 0.1;
    if (loss == PreferenceLoss::kKto) one.label_weights = {2, 1};
    const std::vector<Comparison> all = config::labels_answers(loss) ? labelled() : pairs();
    const std::vector<ComparisonLoss> losses = preference_losses(one, all);
    for (std::size_t i = 0; i < all.size(); ++i)
      for (std::size_t answer = 0; answer < config::kAnswers; ++answer) {
        if (all[i][answer].tokens == 0) continue;
        if (static_cast<Answer>(answer) == Answer::kMismatched) {
          EXPECT_EQ(losses[i].slopes[answer], 0);
          continue;
        }
        const auto moved = [&](double by) {
          std::vector<Comparison> other = all;
          other[i][answer].ratio += by;
          other[i][answer].log_prob += by;
          return total_loss(one, preference_losses(one, other));
        };
        constexpr double kStep = 1e-5;
        EXPECT_NEAR(losses[i].slopes[answer], (moved(kStep) - moved(-kStep)) / (2 * kStep), 1e-8)
            << name(loss) << " comparison " << i << " answer " << answer;
      }
  }
}

TEST(PreferenceLosses, StayFiniteFarOut) {
  std::vector<Comparison> far = pairs();
  sum(far[0], Answer::kChosen).ratio = -1e5;
  sum(far[1], Answer::kChosen) = {.ratio = 1e5, .log_prob = 0, .tokens = 2};
  for (const PreferenceLoss loss :
       {PreferenceLoss::kDpo, PreferenceLoss::kIpo, PreferenceLoss::kSimpo, PreferenceLoss::kOrpo})
    for (const ComparisonLoss& one : preference_losses(preference(loss), far)) {
      EXPECT_TRUE(std::isfinite(one.loss)) << name(loss);
      for (const double slope : one.slopes) EXPECT_TRUE(std::isfinite(slope)) << name(loss);
    }
}

TEST(PreferenceLosses, MetricsCountWhatIsThere) {
  const auto dpo = preference_metrics(preference(PreferenceLoss::kDpo), pairs());
  ASSERT_EQ(dpo.size(), config::preference_metrics({}).size());
  EXPECT_NEAR(dpo[0].sum, 0.1 * (0.7 - 2.5), 1e-14);
  EXPECT_NEAR(dpo[4].sum, 0.1 * (1.1 - 4), 1e-14);
  EXPECT_EQ(dpo[5].sum, 1);  // one of two
  EXPECT_EQ(dpo[5].of, 2);
  EXPECT_EQ(dpo[2].sum, -26);
  const auto kto = preference_metrics(preference(PreferenceLoss::kKto), labelled());
  EXPECT_EQ(kto[0].of, 1);
  EXPECT_EQ(kto[1].of, 2);
  EXPECT_NEAR(kto[4].sum, 1.2, 1e-14);
  EXPECT_EQ(preference_metrics(preference(PreferenceLoss::kOrpo), pairs()).size(),
            config::preference_metrics({.loss = PreferenceLoss::kOrpo}).size());
}

}  // namespace
}  // namespace trireme::comparisons::losses_test
