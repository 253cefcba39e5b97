// Vision transformers that classify images.
#include "trireme/config/families.h"
#include "trireme/config/family_keys.h"
#include "trireme/config/rules/shared_rules.h"

namespace trireme::config {

namespace {

std::vector<Rule> vit_rules() {
  return joined({{reads("data.source=stripes|images", "it reads labelled images")},
                 tower_rules(),
                 class_rules()});
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
