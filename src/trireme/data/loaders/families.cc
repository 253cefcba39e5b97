#include "trireme/data/loaders/families.h"

#include <array>

#include "trireme/config/families.h"

namespace trireme::loaders {

#define TRIREME_FAMILY(name, id) FamilySamples name##_samples();
#include "trireme/families/samples.inc"
#undef TRIREME_FAMILY

const FamilySamples& family_samples(const config::Job& job) {
  static const FamilySamples kOfSource{};
  static const std::array kSamples = {
#define TRIREME_FAMILY(name, id) config::entry_of(config::Family::id, name##_samples()),
#include "trireme/families/samples.inc"
#undef TRIREME_FAMILY
  };
  const FamilySamples* found = config::find_entry<FamilySamples>(kSamples, job.model.family);
  return found != nullptr ? *found : kOfSource;
}

}  // namespace trireme::loaders
