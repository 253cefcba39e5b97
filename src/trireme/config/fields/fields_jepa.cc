// V-JEPA 2: pretraining, its action-conditioned predictor, probes.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> jepa_fields() {
  return {
      of_weights(
          integer(KEY(jepa.layers), "Transformer blocks of the predictor.", from(1, 1 << 16))),
      of_weights(integer(KEY(jepa.hidden), "Width of its residual stream.", from(1, kMaxWidth))),
      of_weights(
          integer(KEY(jepa.heads), "Its attention heads; must divide hidden.", from(1, 1 << 16))),
      of_weights(integer(KEY(jepa.mask_tokens),
                         "Learned mask tokens: 1, which both masks share as in V-JEPA 2, or 2, one "
                         "for each mask as in V-JEPA 1.",
                         from(1, 2))),
      fixed(number(KEY(jepa.momentum),
                   "The teacher becomes momentum x teacher + (1 - momentum) x student after every "
                   "step.",
                   half_open(0, 1))),
      fixed(optional_number(KEY(jepa.momentum_end),
                            "Momentum at optim.decay_steps, which it nears linearly; -1: it stays "
                            "as it is.",
                            from(0, 1))),
      fixed(integer(KEY(jepa.short_blocks), "Blocks of a short-range mask.", from(1, 1 << 10))),
      fixed(
          number(KEY(jepa.short_scale), "Share of a frame that each of them covers.", above(0, 1))),
      fixed(integer(KEY(jepa.long_blocks), "Blocks of a long-range mask.", from(1, 1 << 10))),
      fixed(
          number(KEY(jepa.long_scale), "Share of a frame that each of them covers.", above(0, 1))),
      fixed(choice(KEY(jepa.cut),
                   "Lengths of the masks: none keeps every token; batch draws one block size for "
                   "jepa.cut_samples samples and cuts their contexts and targets to the shortest, "
                   "from the end, as V-JEPA 2 does with the batch of a device.",
                   {{"none", MaskCut::kNone}, {"batch", MaskCut::kBatch}})),
      fixed(integer(KEY(jepa.cut_samples),
                    "Consecutive samples that jepa.cut=batch cuts to one length, whatever the "
                    "layout and the batch sizes.",
                    from(1, 1 << 12))),
  };
}

std::vector<Field> action_fields() {
  return {
      of_weights(
          integer(KEY(action.layers), "Transformer blocks of the predictor.", from(1, 1 << 16))),
      of_weights(integer(KEY(action.hidden), "Width of its residual stream.", from(1, kMaxWidth))),
      of_weights(
          integer(KEY(action.heads), "Its attention heads; must divide hidden.", from(1, 1 << 16))),
      of_weights(
          integer(KEY(action.size), "Numbers of an action, and of a state.", from(1, 1 << 10))),
      fixed(integer(KEY(action.rollout),
                    "Frames that the second loss is of, each predicted from the predictions before "
                    "it; 1: only the first, which is predicted from a real frame.",
                    from(1, 1 << 10))),
  };
}

std::vector<Field> probe_fields() {
  return {
      of_weights(
          integer(KEY(probe.layers),
                  "Blocks of an attentive probe: all but one of self-attention, and one in which "
                  "a learned query attends to all tokens.",
                  from(1, 1 << 10))),
      of_weights(integer(KEY(probe.heads), "Their attention heads; must divide vision.hidden.",
                         from(1, 1 << 16))),
      fixed(
          text(KEY(probe.lr),
               "Factors of optim.lr, one for each of several probes that train at once on the same "
               "features; empty: one probe.")),
      fixed(text(KEY(probe.weight_decay),
                 "Factors of optim.weight_decay: for each of them a probe with every factor of "
                 "probe.lr; empty: all have optim.weight_decay.")),
      fixed(number(KEY(probe.crop),
                   "Least share of a frame's area that a training crop of a user's clip covers "
                   "(default 0.08).",
                   above(0, 1))),
      fixed(integer(KEY(probe.augment),
                    "Number of random operations on each training clip, RandAugment of magnitude 7 "
                    "(default 0; V-JEPA 2: 4). Some of them shift or rotate, none mirrors.",
                    from(0, 16))),
      fixed(number(KEY(probe.erase),
                   "Probability that a rectangle of a training clip becomes noise (default 0; "
                   "V-JEPA 2: 0.25).",
                   from(0, 1))),
      fixed(integer(KEY(probe.segments),
                    "Clips of a sample, from equal segments of its video, whose tokens a probe "
                    "reads one after another (default 1; V-JEPA 2: 2).",
                    from(1, 64))),
      fixed(integer(KEY(probe.views),
                    "Crops of a held-out sample along its longer side, whose probabilities are "
                    "averaged (default 1; V-JEPA 2: 3). Must divide run.micro_batch.",
                    from(1, 64))),
  };
}

}  // namespace trireme::config
