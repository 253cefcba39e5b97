// Losses that compare answers.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> preference_fields() {
  constexpr double kMost = 1000;
  return {
      fixed(choice(KEY(preference.loss),
                   "Loss of data.source=preferences (docs/preferences.md): dpo, ipo, simpo and "
                   "orpo for pairs of a chosen and a rejected answer, kto for answers with labels.",
                   {{"dpo", PreferenceLoss::kDpo},
                    {"ipo", PreferenceLoss::kIpo},
                    {"simpo", PreferenceLoss::kSimpo},
                    {"orpo", PreferenceLoss::kOrpo},
                    {"kto", PreferenceLoss::kKto}})),
      fixed(number(KEY(preference.beta),
                   "Factor of log-probability ratios. Larger values keep the model closer to the "
                   "reference.",
                   above(0, kMost))),
      fixed(number(KEY(preference.gamma), "Target margin of rewards (simpo).", from(0, kMost))),
      fixed(number(KEY(preference.label_smoothing),
                   "Share of pairs whose chosen and rejected answers are assumed to be exchanged "
                   "(dpo).",
                   half_open(0, 0.5))),
      fixed(two_numbers(KEY(preference.label_weights),
                        "Weights of answers with label true and with label false (kto).",
                        from(0, kMost))),
      // Not fixed: a directory may move; its record names the data and the weights.
      text(KEY(preference.reference),
           "Directory of the log-probabilities of the initial weights (dpo, ipo, kto). It is "
           "written before the first step if it does not exist. Empty: RUNDIR/reference."),
  };
}

}  // namespace trireme::config
