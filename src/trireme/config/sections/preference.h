// Section preference of a job: losses that compare answers, and what the tokens of these are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::config {

enum class PreferenceLoss { kDpo, kIpo, kSimpo, kOrpo, kKto };

struct Preference {
  PreferenceLoss loss = PreferenceLoss::kDpo;
  double beta = 0.1;
  double gamma = 0.5;          // margin of simpo
  double label_smoothing = 0;  // of dpo: the share of pairs whose answers are exchanged
  std::array<double, 2> label_weights = {1, 1};  // of kto: answers with label true, and false
  std::string reference;  // directory of its log-probabilities; empty: RUNDIR/reference
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
// Whether its samples are single answers with a label, as kto's, and not pairs.
inline bool labels_answers(PreferenceLoss loss) { return loss == PreferenceLoss::kKto; }

// Metrics of a preference loss, in the order in which its node counts them.
std::vector<std::string> preference_metrics(PreferenceLoss loss);

}  // namespace trireme::config
