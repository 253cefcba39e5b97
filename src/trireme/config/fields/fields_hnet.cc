// H-Nets: byte-level language models that cut their text into chunks.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> hnet_fields() {
  return {
      of_weights(text(KEY(hnet.layout),
                      "Blocks of each stage as ENCODER,[INNER],DECODER, nested, such as "
                      "m4,[T1m4,[T26],m4T1],m4. Letters with a count: t (attention), T (attention "
                      "and SwiGLU), m (Mamba-2), M (Mamba-2 and SwiGLU).")),
      of_weights(text(KEY(hnet.hidden),
                      "Width of each stage, comma-separated, outermost first. May not decrease.")),
      of_weights(text(KEY(hnet.heads), "Attention heads of each stage, comma-separated.")),
      of_weights(text(KEY(hnet.ffn),
                      "Width of each stage's feed-forward layers, comma-separated; 0 for a stage "
                      "without them.")),
      inherited(fixed(text(KEY(hnet.ratio),
                           "Target positions per chunk of each stage's router, comma-separated, "
                           "without the innermost stage."))),
      fixed(number(KEY(hnet.ratio_weight), "Weight of the ratio loss, added to the cross-entropy.",
                   from(0, 1e3))),
      fixed(text(KEY(hnet.lr),
                 "Factor of optim.lr for each stage, comma-separated. Empty: 1 for all.")),
      of_weights(text(KEY(hnet.window),
                      "Attention window of each stage in positions, comma-separated, such as "
                      "1023,-1; -1: unlimited. Empty: unlimited for all.")),
  };
}

}  // namespace trireme::config
