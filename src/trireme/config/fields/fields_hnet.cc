// H-Nets: byte-level language models that cut their text into chunks.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> hnet_fields() {
  return {
      of_weights(
          text(KEY(hnet.layout),
               "Blocks of each stage, ENCODER,[INNER],DECODER with as many stages inside each "
               "other as there are brackets: letters t (attention), T (attention and SwiGLU), m "
               "(Mamba-2), M (Mamba-2 and SwiGLU) with a number behind each, such as "
               "m4,[T1m4,[T26],m4T1],m4.")),
      of_weights(
          text(KEY(hnet.hidden), "Width of each stage, from the outermost on; may not decrease.")),
      of_weights(text(KEY(hnet.heads), "Attention heads of each stage.")),
      of_weights(
          text(KEY(hnet.ffn), "Width of each stage's feed-forward layers; 0 where it has none.")),
      inherited(fixed(
          text(KEY(hnet.ratio),
               "Positions to a chunk that the router of each stage but the innermost aims at."))),
      fixed(number(KEY(hnet.ratio_weight), "Of the ratio loss beside the cross-entropy.",
                   from(0, 1e3))),
      fixed(
          text(KEY(hnet.lr), "What optim.lr is multiplied by in each stage; empty: 1 everywhere.")),
      of_weights(
          text(KEY(hnet.window),
               "Positions of each stage that its attention looks back, as 1023,-1; -1: all. Empty: "
               "all everywhere.")),
  };
}

}  // namespace trireme::config
