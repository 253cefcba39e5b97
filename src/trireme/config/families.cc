#include "trireme/config/families.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/fields/field_lists.h"
#include "trireme/config/rules/shared_rules.h"

namespace trireme::config {

#define TRIREME_FAMILY(name, id) FamilyInfo name##_family();
#include "trireme/families/keys.inc"
#undef TRIREME_FAMILY

namespace {

// Every family has these of `model`.
constexpr std::string_view kEvery = "model.family,model.frozen,model.weights";

FamilyInfo called(std::string_view name, Family family, FamilyInfo info) {
  info.name = name;
  info.family = family;
  return info;
}

// Sections of which a family must name what it uses.
const std::vector<std::string>& sections_of_families() {
  static const std::vector<std::string> kSections = [] {
    std::vector<std::string> sections = {"model", "vision"};
    for (const Field& field : family_fields()) sections.emplace_back(field.section());
    return sections;
  }();
  return kSections;
}

bool named(std::string_view patterns, std::string_view key) {
  return std::ranges::any_of(split_list(patterns), [&](std::string_view pattern) {
    return matches(pattern, std::string(key));
  });
}

}  // namespace

std::span<const FamilyInfo> families() {
  static const std::array kFamilies = {
#define TRIREME_FAMILY(name, id) called(#name, Family::id, name##_family()),
#include "trireme/families/keys.inc"
#undef TRIREME_FAMILY
  };
  return kFamilies;
}

FamilyInfo language_model(const Decoder& decoder) {
  return {.keys = "model.*",
          .rules = language_rules,
          .decoder = decoder,
          .chain = true,
          .reads_tokens = true,
          .packs_conversations = true,
          .zigzag = true,
          .sequence_parallel = true,
          .adapters = true,
          .fp16_on_cpu = true};
}

const FamilyInfo& info(Family family) {
  const FamilyInfo* found = find_entry(families(), family);
  TRIREME_CHECK(found != nullptr, "model.family {} has no record", static_cast<int>(family));
  return *found;
}

std::string names_where(bool (*holds)(const FamilyInfo&)) {
  std::vector<std::string_view> names;
  for (const FamilyInfo& one : families())
    if (holds(one)) names.push_back(one.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

Family decoder_alone(Family family) {
  const std::optional<Decoder>& decoder = info(family).decoder;
  TRIREME_CHECK(decoder.has_value(), "family {} has no decoder", name(family));
  const auto alone = std::ranges::find(families(), decoder->family, &FamilyInfo::name);
  TRIREME_CHECK(alone != families().end(), "there is no family {}", decoder->family);
  return alone->family;
}

bool uses(Family family, std::string_view key) {
  const bool of_families = std::ranges::any_of(
      sections_of_families(),
      [&](std::string_view section) { return key.substr(0, key.find('.')) == section; });
  const FamilyInfo& own = info(family);
  return !of_families || named(kEvery, key) || named(own.keys, key) || named(own.also, key) ||
         named(own.chunks, key);
}

}  // namespace trireme::config
