// Pretraining of V-JEPA 2.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/families/jepa/keys_checks.h"

namespace trireme::config {

std::vector<Field> jepa_fields() {
  return {
      of_weights(
          integer(KEY(jepa.layers), "Transformer blocks of the predictor.", from(1, 1 << 16))),
      of_weights(integer(KEY(jepa.hidden), "Width of the predictor's residual stream.",
                         from(1, kMaxWidth))),
      of_weights(integer(KEY(jepa.heads),
                         "Attention heads of the predictor. Must divide jepa.hidden.",
                         from(1, 1 << 16))),
      of_weights(integer(
          KEY(jepa.mask_tokens),
          "Learned mask tokens: 1, shared by both masks (V-JEPA 2), or 2, one per mask (V-JEPA 1).",
          from(1, 2))),
      fixed(moving("jepa.momentum", MEMBER(jepa.momentum), MEMBER(jepa.momentum_end),
                   "Momentum of the teacher: after every step teacher = momentum x teacher + (1 - "
                   "momentum) x student. With two numbers it moves along a line.",
                   from(0, 1))),
      fixed(text(KEY(jepa.masks),
                 "Short-range and long-range mask of a clip, each as BLOCKSxSHARE; a block covers "
                 "that share of a frame.")),
      fixed(
          integer(KEY(jepa.cut_batch),
                  "Consecutive samples with one block size that are cut to the shortest, as V-JEPA "
                  "2 does with a device's batch of 24; independent of layout and batch size. 0: "
                  "every token is kept.",
                  from(0, 1 << 12))),
  };
}

FamilyInfo jepa_family() {
  return {.about = "video: V-JEPA 2",
          .keys = kClipTowerKeys,
          .also = "jepa.*",
          .rules = jepa_rules,
          .embeds = true};
}

}  // namespace trireme::config
