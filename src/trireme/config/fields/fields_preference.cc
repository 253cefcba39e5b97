// Losses of compared and of rewarded answers.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> preference_fields() {
  constexpr double kMost = 1000;
  return {
      fixed(choice(KEY(preference.loss),
                   "Loss of data.source=preferences (docs/preferences.md): dpo, ipo, simpo and "
                   "orpo for pairs of a chosen and a rejected answer, kto for answers with labels. "
                   "Policy losses for sampled answers with rewards (docs/rollouts.md): grpo, bnpo, "
                   "dr_grpo, dapo, cispo, gspo.",
                   {{"dpo", PreferenceLoss::kDpo},
                    {"ipo", PreferenceLoss::kIpo},
                    {"simpo", PreferenceLoss::kSimpo},
                    {"orpo", PreferenceLoss::kOrpo},
                    {"kto", PreferenceLoss::kKto},
                    {"grpo", PreferenceLoss::kGrpo},
                    {"bnpo", PreferenceLoss::kBnpo},
                    {"dr_grpo", PreferenceLoss::kDrGrpo},
                    {"dapo", PreferenceLoss::kDapo},
                    {"cispo", PreferenceLoss::kCispo},
                    {"gspo", PreferenceLoss::kGspo}})),
      fixed(number(KEY(preference.beta),
                   "Factor of log-probability ratios (dpo, ipo, simpo, orpo, kto). Larger values "
                   "keep the model closer to the reference.",
                   above(0, kMost))),
      fixed(number(KEY(preference.gamma), "Target margin of rewards (simpo).", from(0, kMost))),
      fixed(number(KEY(preference.label_smoothing),
                   "Share of pairs whose chosen and rejected answers are assumed to be exchanged "
                   "(dpo).",
                   half_open(0, 0.5))),
      fixed(two_numbers(KEY(preference.label_weights),
                        "Weights of answers with label true and with label false (kto).",
                        from(0, kMost))),
      fixed(two_numbers(KEY(preference.clip),
                        "Clipping of a policy loss: probability ratios count between 1 - the first "
                        "and 1 + the second number; cispo: up to the second. [0, 0]: [0.2, 0.2], "
                        "dapo [0.2, 0.28], gspo [0.0003, 0.0004], cispo [0, 5].",
                        from(0, kMost))),
      fixed(number(KEY(preference.kl),
                   "Factor of the KL divergence from the reference in a policy loss.",
                   from(0, kMost))),
      fixed(choice(KEY(preference.scale),
                   "Divisor of the advantages of a policy loss: group (standard deviation of the "
                   "rewards of a prompt), none, or loss (none for dr_grpo, else group).",
                   {{"loss", AdvantageScale::kLoss},
                    {"group", AdvantageScale::kGroup},
                    {"none", AdvantageScale::kNone}})),
      fixed(integer(KEY(preference.answer_tokens),
                    "Tokens by which dr_grpo divides the loss of each answer: the longest that an "
                    "answer may be. 0: model.seq_len.",
                    from(0, kMaxIds))),
      // Not fixed: a directory may move; its record names the data and the weights.
      text(KEY(preference.reference),
           "Directory of the log-probabilities of the initial weights (dpo, ipo, kto and policy "
           "losses). It is "
           "written before the first step if it does not exist. Empty: RUNDIR/reference."),
  };
}

}  // namespace trireme::config
