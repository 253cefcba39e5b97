#include "trireme/planner/cost/families.h"

#include <array>

#include "trireme/config/families.h"

namespace trireme::planner {

#define TRIREME_FAMILY(name, id) FamilyPrices name##_prices();
#include "trireme/families/prices.inc"
#undef TRIREME_FAMILY

namespace {

FamilyPrices of(config::Family family, FamilyPrices prices) {
  prices.family = family;
  return prices;
}

}  // namespace

const FamilyPrices& family_prices(config::Family family) {
  static const FamilyPrices kNothing{};
  static const std::array kPrices = {
#define TRIREME_FAMILY(name, id) of(config::Family::id, name##_prices()),
#include "trireme/families/prices.inc"
#undef TRIREME_FAMILY
  };
  const FamilyPrices* found = config::find_entry<FamilyPrices>(kPrices, family);
  return found != nullptr ? *found : kNothing;
}

}  // namespace trireme::planner
