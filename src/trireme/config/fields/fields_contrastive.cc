// Towers whose features meet in one space.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> contrastive_fields() {
  return {
      of_weights(choice(KEY(contrastive.loss),
                        "Contrastive loss over the global batch: clip (cross-entropy over rows and "
                        "columns) or siglip (a sigmoid loss per pair).",
                        {{"clip", ContrastiveLoss::kClip}, {"siglip", ContrastiveLoss::kSiglip}})),
      of_weights(integer(KEY(contrastive.width),
                         "Width of the shared embedding space of both towers.",
                         from(1, kMaxWidth))),
  };
}

}  // namespace trireme::config
