// Vision towers.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> vision_fields() {
  return {
      inherited(
          fixed(integer(KEY(vision.image), "Image size in pixels per side.", from(1, 1 << 14)))),
      of_weights(integer(KEY(vision.patch),
                         "Patch size in pixels per side. Must divide vision.image.",
                         from(1, 1 << 10))),
      inherited(
          fixed(integer(KEY(vision.frames), "Frames per clip. 1: images.", from(1, 1 << 12)))),
      of_weights(integer(KEY(vision.tubelet), "Frames per token. Must divide vision.frames.",
                         from(1, 1 << 10))),
      of_weights(
          integer(KEY(vision.layers), "Transformer blocks of the vision tower.", from(1, 1 << 16))),
      of_weights(integer(KEY(vision.hidden), "Width of the vision tower's residual stream.",
                         from(1, kMaxWidth))),
      of_weights(integer(KEY(vision.heads),
                         "Attention heads of the vision tower. Must divide vision.hidden.",
                         from(1, 1 << 16))),
      of_weights(integer(KEY(vision.ffn),
                         "Width of the vision tower's feed-forward layers. 0: 4 x vision.hidden.",
                         from(0, 1 << 24))),
      of_weights(choice(KEY(vision.activation),
                        "Activation function of the vision tower's feed-forward layers.",
                        {{"gelu", Activation::kGelu},
                         {"gelu_tanh", Activation::kGeluTanh},
                         {"quick_gelu", Activation::kQuickGelu}})),
      of_weights(
          choice(KEY(vision.positions),
                 "Position embedding of the vision tower: learned (a table), rotary (over time, "
                 "row and column) or another form of rotary. rotary_compat: Meta's V-JEPA 2 "
                 "weights. learned_rotary: a table, and rotary over row and column (Qwen3-VL).",
                 {{"learned", Positions::kLearned},
                  {"rotary", Positions::kRotary},
                  {"rotary_compat", Positions::kRotaryCompat},
                  {"learned_rotary", Positions::kLearnedRotary}})),
      inherited(
          fixed(integer(KEY(vision.position_grid),
                        "Rows and columns of the learned position table, resampled bilinearly "
                        "(corners aligned) to an image's tokens. 0: as many as an image has.",
                        from(0, 1 << 10)))),
      of_weights(choice(KEY(vision.pooling),
                        "Image representation: the mean of the tokens, a class token, or attention "
                        "of a learned query.",
                        {{"mean", Pooling::kMean},
                         {"class", Pooling::kClass},
                         {"attention", Pooling::kAttention}})),
      of_weights(
          boolean(KEY(vision.pre_norm),
                  "Norm before the first block, and a patch embedding without bias (CLIP).")),
      of_weights(
          number(KEY(vision.norm_eps), "Epsilon of the vision tower's LayerNorms.", above(0, 1))),
      of_weights(text(KEY(vision.pixels),
                      "Mean and standard deviation of red, green and blue (0 to 1) of normalized "
                      "pixels: clip, siglip, imagenet or numbers such as "
                      "0.5,0.5,0.5/0.25,0.25,0.25. Empty: siglip for tiles of family vlm, imagenet "
                      "for other families. Synthetic pictures of other families are already "
                      "normalized.")),
      of_weights(integer(KEY(vision.classes),
                         "Classes of images or clips. 0: as many as the data set has.",
                         from(0, kMaxIds))),
      of_weights(boolean(KEY(vision.chunked),
                         "Frozen tower of clips with H-V-JEPA's chunks (section chunk). false: "
                         "V-JEPA 2's tower.")),
  };
}

}  // namespace trireme::config
