#include "trireme/planner/cost/families.h"

#include <array>

#include "trireme/config/families.h"

namespace trireme::planner {

#define TRIREME_FAMILY(name, id) FamilyPrices name##_prices();
#include "trireme/families/prices.inc"
#undef TRIREME_FAMILY

const FamilyPrices& family_prices(config::Family family) {
  static const FamilyPrices kNothing{};
  static const std::array kPrices = {
#define TRIREME_FAMILY(name, id) config::entry_of(config::Family::id, name##_prices()),
#include "trireme/families/prices.inc"
#undef TRIREME_FAMILY
  };
  const FamilyPrices* found = config::find_entry<FamilyPrices>(kPrices, family);
  return found != nullptr ? *found : kNothing;
}

}  // namespace trireme::planner
