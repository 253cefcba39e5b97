// Section preference of a job: losses of compared or rewarded answers, and what the tokens of these are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

enum class PreferenceLoss {
  kDpo,
  kIpo,
  kSimpo,
  kOrpo,
  kKto,
  kGrpo,  // from here on policy losses, of answers with rewards
  kBnpo,
  kDrGrpo,
  kDapo,
  kCispo,
  kGspo,
};

// Divisor of the advantages of a policy loss: the standard deviation of a group's rewards, or none. kLoss: none for
// dr_grpo, the deviation for the others.
enum class AdvantageScale { kLoss, kGroup, kNone };

struct Preference {
  PreferenceLoss loss = PreferenceLoss::kDpo;
  double beta = 0.1;
  double gamma = 0.5;          // margin of simpo
  double label_smoothing = 0;  // of dpo: the share of pairs whose answers are exchanged
  std::array<double, 2> label_weights = {1, 1};  // of kto: answers with label true, and false
  // Of policy losses: how far the ratio of probabilities may lie below and above 1 (cispo: the largest ratio is the
  // second number). [0, 0]: those of the loss.
  std::array<double, 2> clip = {0, 0};
  double kl = 0;  // factor of the divergence from the reference
  AdvantageScale scale = AdvantageScale::kLoss;
  std::int64_t answer_tokens = 0;  // of dr_grpo: the longest answer; 0: model.seq_len
  std::string reference;           // directory of its log-probabilities; empty: RUNDIR/reference
  bool operator==(const Preference&) const = default;
};

// Part of a comparison that a token belongs to. Data sets keep these numbers.
enum class Answer : std::uint8_t {
  kNone,
  kChosen,
  kRejected,
  kWanted,      // of kto: a good answer
  kUnwanted,    // of kto: a bad one
  kMismatched,  // of kto: an answer to another prompt
  kPrompt,      // of orpo: the prompt of the chosen answer
  kSampled,     // of policy losses: an answer with a reward
};
// The input of a preference loss for a token: its comparison within the row, and its Answer in the last bits.
inline constexpr std::int64_t kAnswers = 8;
constexpr std::int64_t answer_code(std::int64_t comparison, Answer answer) {
  return comparison * kAnswers + static_cast<std::int64_t>(answer);
}

// As preference.loss spells it.
std::string_view name(PreferenceLoss loss);

// Whether it compares log-probabilities with those of the model that training began with.
bool uses_reference(PreferenceLoss loss);
// What its samples are: pairs of answers, single answers with a label, or answers with rewards.
enum class Compares { kPairs, kLabels, kRewards };
Compares compares(PreferenceLoss loss);
inline bool labels_answers(PreferenceLoss loss) { return compares(loss) == Compares::kLabels; }
inline bool rewards_answers(PreferenceLoss loss) { return compares(loss) == Compares::kRewards; }

// preference.clip of a policy loss that leaves it out, as its paper has it.
std::array<double, 2> usual_clip(PreferenceLoss loss);
// Whether advantages are divided by the standard deviation of a group's rewards.
bool divides_advantages(const Preference& preference);

// Metrics of a preference loss, in the order in which its node counts them.
std::vector<std::string> preference_metrics(const Preference& preference);

}  // namespace trireme::config
