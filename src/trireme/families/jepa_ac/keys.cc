// The action-conditioned predictor of V-JEPA 2-AC.
#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule.h"
#include "trireme/families/hvjepa/keys_checks.h"
#include "trireme/families/jepa/keys_checks.h"

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

void resolve_action(Job& job, const DatasetFacts& data) {
  resolve_frozen_tower(job);
  check_reads(job, DataSource::kArm, DataSource::kTrajectories, "clips with actions");
  const Action& action = job.action;
  check_rotary_heads("action", action.hidden, action.heads);
  if (job.vision.frames < 2)
    fail(ErrorKind::kUsage, "vision.frames={}: an action lies between two frames; needs 2 or more",
         job.vision.frames);
  if (action.rollout > job.vision.frames - 1)
    fail(ErrorKind::kUsage,
         "action.rollout={} frames are predicted one after the other, but a clip has {} after its "
         "first (vision.frames={}); lower it",
         action.rollout, job.vision.frames - 1, job.vision.frames);
  if (job.parallel.tp > action.heads)
    fail(ErrorKind::kUsage,
         "parallel.tp={} is more than action.heads={}; a rank needs at least one", job.parallel.tp,
         action.heads);
}

std::vector<Rule> jepa_ac_rules() {
  return {{.id = "jepa_ac",
           .fill = [](Job& job, const Given& given) { resolve_action(job, given.data); }}};
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
