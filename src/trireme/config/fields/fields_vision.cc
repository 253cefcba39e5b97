// Vision towers.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> vision_fields() {
  return {
      inherited(fixed(integer(KEY(vision.image), "Pixels of an image's side.", from(1, 1 << 14)))),
      of_weights(integer(KEY(vision.patch), "Pixels of a patch's side; must divide image.",
                         from(1, 1 << 10))),
      inherited(
          fixed(integer(KEY(vision.frames), "Frames of a clip; 1: images.", from(1, 1 << 12)))),
      of_weights(
          integer(KEY(vision.tubelet), "Frames of a token; must divide frames.", from(1, 1 << 10))),
      of_weights(integer(KEY(vision.layers), "Transformer blocks of the tower.", from(1, 1 << 16))),
      of_weights(integer(KEY(vision.hidden), "Width of its residual stream.", from(1, kMaxWidth))),
      of_weights(
          integer(KEY(vision.heads), "Its attention heads; must divide hidden.", from(1, 1 << 16))),
      of_weights(integer(KEY(vision.ffn), "Width of its feed-forward layers; 0: 4 x hidden.",
                         from(0, 1 << 24))),
      of_weights(choice(KEY(vision.activation), "Of its feed-forward layers.",
                        {{"gelu", Activation::kGelu},
                         {"gelu_tanh", Activation::kGeluTanh},
                         {"quick_gelu", Activation::kQuickGelu}})),
      of_weights(
          choice(KEY(vision.positions),
                 "How tokens know their places: a learned table, rotary positions over time, row "
                 "and column, these as Meta's V-JEPA 2 weights were trained with, or a table and "
                 "rotary positions over row and column (Qwen3-VL).",
                 {{"learned", Positions::kLearned},
                  {"rotary", Positions::kRotary},
                  {"rotary_compat", Positions::kRotaryCompat},
                  {"learned_rotary", Positions::kLearnedRotary}})),
      inherited(fixed(
          integer(KEY(vision.position_grid),
                  "Rows and columns of the learned table, which is resampled bilinearly, corner "
                  "to corner, to an image's tokens; 0: as many as these.",
                  from(0, 1 << 10)))),
      of_weights(
          choice(KEY(vision.pooling),
                 "What stands for an image: the mean of its tokens, a class token, or what a "
                 "learned query attends to.",
                 {{"mean", Pooling::kMean},
                  {"class", Pooling::kClass},
                  {"attention", Pooling::kAttention}})),
      of_weights(
          boolean(KEY(vision.pre_norm),
                  "A norm before the first block, and patches embedded without a bias, as in "
                  "CLIP.")),
      of_weights(number(KEY(vision.norm_eps), "Epsilon of the tower's LayerNorms.", above(0, 1))),
      fixed(
          number(KEY(vision.init_std), "Standard deviation of its initial weights.", from(0, 10))),
      of_weights(text(KEY(vision.mean),
                      "Mean of red, green and blue, from 0 to 1, that is subtracted from pixels: "
                      "clip, siglip, imagenet or three numbers such as 0.5,0.5,0.5. Empty: siglip "
                      "for tiles of family vlm, imagenet for others. Synthetic pictures of other "
                      "families are drawn as normalized values.")),
      of_weights(text(KEY(vision.std),
                      "Standard deviation by which pixels are divided, in the form of "
                      "vision.mean.")),
      of_weights(integer(KEY(vision.classes),
                         "Classes that images or clips are told apart by; 0: the "
                         "data's.",
                         from(0, kMaxIds))),
      of_weights(
          boolean(KEY(vision.chunked),
                  "Whether a frozen tower of clips is H-V-JEPA's, whose blocks see the chunks that "
                  "section chunk says, or V-JEPA 2's. The family hvjepa trains one.")),
  };
}

}  // namespace trireme::config
