#include "trireme/checkpoint/convert/families.h"

#include <array>

#include "trireme/config/families.h"

namespace trireme::convert {

#define TRIREME_FAMILY(name, id) FamilyFiles name##_hugging_face();
#include "trireme/families/hugging_face.inc"
#undef TRIREME_FAMILY

std::span<const FamilyFiles> family_files() {
  static const std::array kFiles = {
#define TRIREME_FAMILY(name, id) config::entry_of(config::Family::id, name##_hugging_face()),
#include "trireme/families/hugging_face.inc"
#undef TRIREME_FAMILY
  };
  return kFiles;
}

const FamilyFiles* family_files(config::Family family) {
  return config::find_entry(family_files(), family);
}

}  // namespace trireme::convert
