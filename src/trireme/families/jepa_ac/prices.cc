#include "trireme/families/hvjepa/prices.h"

#include "trireme/planner/cost/families.h"

namespace trireme::planner {

FamilyPrices jepa_ac_prices() { return {.shares = frozen_tower_shares}; }

}  // namespace trireme::planner
