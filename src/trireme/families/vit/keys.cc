// Vision transformers that classify images.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule.h"

namespace trireme::config {

namespace {

void resolve_vit(Job& job, const DatasetFacts& data) {
  check_reads(job, DataSource::kStripes, DataSource::kImages, "labelled images");
  check_text_keys(job);
  resolve_vision(job.vision);
  resolve_classes(job.vision, data);
  check_shared(job, "vision.ffn", job.vision.ffn);
}

std::vector<Rule> vit_rules() {
  return {
      {.id = "vit", .fill = [](Job& job, const Given& given) { resolve_vit(job, given.data); }}};
}

}  // namespace

FamilyInfo vit_family() {
  return {.about = "images, classified",
          .keys = kImageTowerKeys,
          .also = "vision.classes",
          .rules = vit_rules,
          .embeds = true,
          .predicts = Predicts::kClasses};
}

}  // namespace trireme::config
