#include "trireme/config/sections/preference.h"

#include "trireme/base/error.h"

namespace trireme::config {

std::string_view name(PreferenceLoss loss) {
  switch (loss) {
    case PreferenceLoss::kDpo: return "dpo";
    case PreferenceLoss::kIpo: return "ipo";
    case PreferenceLoss::kSimpo: return "simpo";
    case PreferenceLoss::kOrpo: return "orpo";
    case PreferenceLoss::kKto: return "kto";
    case PreferenceLoss::kGrpo: return "grpo";
    case PreferenceLoss::kBnpo: return "bnpo";
    case PreferenceLoss::kDrGrpo: return "dr_grpo";
    case PreferenceLoss::kDapo: return "dapo";
    case PreferenceLoss::kCispo: return "cispo";
    case PreferenceLoss::kGspo: return "gspo";
  }
  TRIREME_CHECK(false, "preference.loss {}", static_cast<int>(loss));
}

bool uses_reference(PreferenceLoss loss) {
  return loss != PreferenceLoss::kSimpo && loss != PreferenceLoss::kOrpo;
}

Compares compares(PreferenceLoss loss) {
  if (loss >= PreferenceLoss::kGrpo) return Compares::kRewards;
  return loss == PreferenceLoss::kKto ? Compares::kLabels : Compares::kPairs;
}

std::array<double, 2> usual_clip(PreferenceLoss loss) {
  switch (loss) {
    case PreferenceLoss::kDapo: return {0.2, 0.28};
    case PreferenceLoss::kCispo: return {0, 5};
    case PreferenceLoss::kGspo: return {3e-4, 4e-4};
    default: return {0.2, 0.2};
  }
}

bool divides_advantages(const Preference& preference) {
  if (preference.scale == AdvantageScale::kLoss) return preference.loss != PreferenceLoss::kDrGrpo;
  return preference.scale == AdvantageScale::kGroup;
}

std::vector<std::string> preference_metrics(const Preference& preference) {
  const PreferenceLoss loss = preference.loss;
  if (rewards_answers(loss)) {
    std::vector<std::string> names = {"reward", "ratio", "clipped", "kl_old", "nll"};
    if (preference.kl > 0) names.emplace_back("kl");
    return names;
  }
  std::vector<std::string> names = {"reward_chosen", "reward_rejected", "logp_chosen",
                                    "logp_rejected"};
  if (labels_answers(loss)) {
    names.emplace_back("kl");
    return names;
  }
  names.insert(names.end(), {"reward_margin", "reward_accuracy"});
  if (loss == PreferenceLoss::kOrpo) names.emplace_back("nll_chosen");
  return names;
}

}  // namespace trireme::config
