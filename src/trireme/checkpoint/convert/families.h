// Files of each family in Hugging Face's form, made from cmake/families.cmake: `NAME_hugging_face()` of each that has
// hugging_face.cc.
#pragma once

#include <span>
#include <vector>

#include "trireme/checkpoint/convert/config_classes.h"
#include "trireme/checkpoint/convert/hugging_face_names.h"
#include "trireme/config/job.h"

namespace trireme::convert {

struct FamilyFiles {
  std::vector<HuggingFaceClass> classes;
  std::vector<Names> names;  // first those that are written
  config::Family family{};   // the list's
};

std::span<const FamilyFiles> family_files();
// Null for a family that cannot be converted.
const FamilyFiles* family_files(config::Family family);

}  // namespace trireme::convert
