// Towers of images and texts whose features meet in one space (CLIP, SigLIP).
#include <vector>

#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {

std::vector<Field> clip_fields() {
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
namespace {

// Captions of a user's own are cut.
double longest_caption(const Job& job) {
  const SyntheticSource* source = synthetic_source(job.data.source);
  return source ? static_cast<double>(source->tokens) : 2;
}

std::vector<Rule> clip_rules() {
  return joined({{reads("data.source=scenes|pairs", "it reads images with captions")},
                 tower_rules(),
                 {{"heads", multiple_of("model.hidden", "model.heads"), nullptr,
                   [](Job& job, const Given&) {
                     if (job.model.ffn == 0) job.model.ffn = 4 * job.model.hidden;
                   }}},
                 vocab_rules(),
                 {{"captions", at_least("model.seq_len", Number("{} tokens", longest_caption),
                                        "captions have up to as many with their end")}}});
}

}  // namespace

FamilyInfo clip_family() {
  return {.about = "images with texts: CLIP, SigLIP",
          .keys = kImageTowerKeys,
          .also =
              "contrastive.*,model.layers,model.hidden,model.heads,model.ffn,model.vocab,"
              "model.seq_len,model.norm_eps",
          .rules = clip_rules,
          .embeds = true,
          .predicts = Predicts::kCaptions,
          .couples_batch = [](const Job&) { return true; },
          .couples = "A contrastive loss compares"};
}

}  // namespace trireme::config
