#include "trireme/model/families/families.h"

#include <fmt/format.h>

#include <array>

#include "trireme/base/error.h"

namespace trireme::model {

#define TRIREME_FAMILY(name, id) FamilyModel name##_model();
#include "trireme/families/model.inc"
#undef TRIREME_FAMILY

LossLabel loss_of_tokens(const config::Job&) {
  return {.name = "cross-entropy", .unit = kNatsPerToken};
}

LossLabel loss_of_answers(const config::Job&) {
  return {.name = "cross-entropy of answers", .unit = kNatsPerToken};
}

LossLabel loss_of_classes(const config::Job&) {
  return {.name = "cross-entropy", .unit = kNatsPerSample};
}

LossLabel loss_of_features(const config::Job&) {
  return {.name = "L1 distance of features", .unit = "L1"};
}

const FamilyModel& family_model(config::Family family) {
  static const std::array kModels = {
#define TRIREME_FAMILY(name, id) config::entry_of(config::Family::id, name##_model()),
#include "trireme/families/model.inc"
#undef TRIREME_FAMILY
  };
  const FamilyModel* found = config::find_entry<FamilyModel>(kModels, family);
  TRIREME_CHECK(found != nullptr, "family {} has no model", config::name(family));
  return *found;
}

LossLabel loss_label(const config::Job& job) {
  if (job.data.source == config::DataSource::kPreferences)
    return {.name = fmt::format("{} loss", config::name(job.preference.loss))};
  return family_model(job.model.family).loss(job);
}

}  // namespace trireme::model
