#include <fmt/format.h>

#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

std::string masks_note(const config::Job&, const ExpectedShare& share) {
  return fmt::format(
      "time is priced at {:.0f} % of a clip's tokens seen, which masks leave on "
      "average; memory at all of them",
      100 * share.of("block.0"));
}

}  // namespace

FamilyPrices jepa_prices() { return {.shares = masked_shares, .note = masks_note}; }

}  // namespace trireme::planner
