#include "trireme/config/fields/fields.h"

#include <algorithm>
#include <iterator>

#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

#define TRIREME_FAMILY(name, id) std::vector<Field> name##_fields();
#include "trireme/families/sections.inc"
#undef TRIREME_FAMILY

std::vector<Field> family_fields() {
  std::vector<Field> list;
#define TRIREME_FAMILY(name, id) std::ranges::move(name##_fields(), std::back_inserter(list));
#include "trireme/families/sections.inc"
#undef TRIREME_FAMILY
  return list;
}

const std::vector<Field>& fields() {
  static const std::vector<Field> kFields = [] {
    std::vector<Field> list;
    for (auto* section :
         {model_fields, vision_fields, family_fields, data_fields, preference_fields,
          parallel_fields, precision_fields, network_fields, recompute_fields, offload_fields,
          optim_fields, lora_fields, run_fields, checkpoint_fields})
      std::ranges::move(section(), std::back_inserter(list));
    return list;
  }();
  return kFields;
}

std::vector<std::string_view> sections() {
  std::vector<std::string_view> names;
  for (const Field& field : fields())
    if (names.empty() || names.back() != field.section()) names.push_back(field.section());
  return names;
}

const Field* find_field(std::string_view key) {
  const auto field = std::ranges::find(fields(), key, &Field::key);
  return field == fields().end() ? nullptr : &*field;
}

}  // namespace trireme::config
