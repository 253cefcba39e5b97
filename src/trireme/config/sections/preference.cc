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
  }
  TRIREME_CHECK(false, "preference.loss {}", static_cast<int>(loss));
}

bool uses_reference(PreferenceLoss loss) {
  return loss != PreferenceLoss::kSimpo && loss != PreferenceLoss::kOrpo;
}

std::vector<std::string> preference_metrics(PreferenceLoss loss) {
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
