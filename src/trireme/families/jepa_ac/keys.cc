// The action-conditioned predictor of V-JEPA 2-AC.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/families/hvjepa/keys_checks.h"

namespace trireme::config {

std::vector<Field> jepa_ac_fields() {
  return {
      of_weights(integer(KEY(action.layers),
                         "Transformer blocks of the action-conditioned predictor.",
                         from(1, 1 << 16))),
      of_weights(integer(KEY(action.hidden), "Width of the predictor's residual stream.",
                         from(1, kMaxWidth))),
      of_weights(integer(KEY(action.heads),
                         "Attention heads of the predictor. Must divide action.hidden.",
                         from(1, 1 << 16))),
      fixed(integer(
          KEY(action.rollout),
          "Frames of the rollout loss, each predicted from earlier predictions. 1: no rollout.",
          from(1, 1 << 10))),
  };
}

namespace {

std::vector<Rule> jepa_ac_rules() {
  const Number moves("{vision.frames} - 1 = {}",
                     [](const Job& job) { return static_cast<double>(job.vision.frames - 1); });
  return joined(
      {{reads("data.source=arm|trajectories", "it reads clips with actions")},
       tower_rules(),
       frozen_tower_rules(),
       {{"action-heads", turned_heads("action.hidden", "action.heads", kTurnsClips)},
        {"action-frames", at_least("vision.frames", 2, "an action lies between two frames")},
        {"rollout", at_most("action.rollout", moves,
                            "frames after a clip's first are predicted one after the other")},
        {"tp-action-heads", shared_by_tp("action.heads")}}});
}

}  // namespace

FamilyInfo jepa_ac_family() {
  return {.about = "V-JEPA 2 with actions",
          .keys = kClipTowerKeys,
          .also = "action.*",
          .chunks = kChunkedTowerKeys,
          .rules = jepa_ac_rules,
          .embeds = true};
}

}  // namespace trireme::config
