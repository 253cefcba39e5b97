// Towers whose features meet in one space.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

std::vector<Field> contrastive_fields() {
  return {
      of_weights(
          choice(KEY(contrastive.loss),
                 "Every image against every caption of the global batch: clip, cross-entropy "
                 "over rows and over columns, or siglip, a yes or no for each pair.",
                 {{"clip", ContrastiveLoss::kClip}, {"siglip", ContrastiveLoss::kSiglip}})),
      of_weights(integer(KEY(contrastive.width), "Width of the space that both towers project to.",
                         from(1, kMaxWidth))),
  };
}

}  // namespace trireme::config
