// Towers of images and texts whose features meet in one space (CLIP, SigLIP).
#include <algorithm>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule.h"
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

void resolve_clip(Job& job, const DatasetFacts& data) {
  check_reads(job, DataSource::kScenes, DataSource::kPairs, "images with captions");
  check_text_keys(job);
  resolve_vision(job.vision);
  Model& text = job.model;
  must_divide("model.hidden", text.hidden, "model.heads", text.heads);
  if (text.ffn == 0) text.ffn = 4 * text.hidden;
  if (text.vocab == 0) text.vocab = data.vocab;
  if (text.vocab == 0 || text.vocab < data.vocab)
    fail(ErrorKind::kUsage,
         "model.vocab={} is smaller than the {} tokens that captions are made of; set "
         "model.vocab={}",
         text.vocab, data.vocab, std::max<std::int64_t>(data.vocab, 1));
  // Captions of a user's own are cut.
  const SyntheticSource* source = synthetic_source(job.data.source);
  if (const std::int64_t longest = source ? source->tokens : 2; text.seq_len < longest)
    fail(ErrorKind::kUsage,
         "model.seq_len={}: captions have up to {} tokens with their end; set model.seq_len={}",
         text.seq_len, longest, longest);
  check_shared(job, "vision.ffn", job.vision.ffn);
  check_shared(job, "model.ffn", text.ffn);
  check_shared(job, "model.vocab", text.vocab);
}

std::vector<Rule> clip_rules() {
  return {
      {.id = "clip", .fill = [](Job& job, const Given& given) { resolve_clip(job, given.data); }}};
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
