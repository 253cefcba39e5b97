// V-JEPA 2: pretraining, its action-conditioned predictor, probes.
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_lists.h"

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

std::vector<Field> action_fields() {
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

std::vector<Field> probe_fields() {
  return {
      of_weights(integer(KEY(probe.layers),
                         "Blocks of an attentive probe; the last attends with a learned query.",
                         from(1, 1 << 10))),
      of_weights(integer(KEY(probe.heads),
                         "Attention heads of the probe. Must divide vision.hidden.",
                         from(1, 1 << 16))),
      fixed(text(KEY(probe.lr),
                 "Factors of optim.lr, comma-separated, one per probe; probes train together on "
                 "the same features. Empty: one probe.")),
      fixed(text(KEY(probe.weight_decay),
                 "Factors of optim.weight_decay, comma-separated, each combined with every factor "
                 "of probe.lr. Empty: optim.weight_decay.")),
      fixed(integer(KEY(probe.augment),
                    "Random operations per training clip: RandAugment of magnitude 7 without "
                    "mirroring, then random erasing in a quarter of the clips (V-JEPA 2: 4). 0: "
                    "neither.",
                    from(0, 16))),
      fixed(pair_of("probe.clips", MEMBER(probe.segments), MEMBER(probe.views),
                    "Clips per sample, from equal segments of its video, and crops per validation "
                    "sample along its longer side, whose probabilities are averaged (V-JEPA 2: "
                    "[2, 3]). The second must divide run.micro_batch.",
                    from(1, 64))),
  };
}

}  // namespace trireme::config
