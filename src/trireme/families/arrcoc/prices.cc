#include <fmt/format.h>

#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

std::string regions_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at arrcoc.budget={} tokens an image; memory at the most that "
      "regions can have",
      job.arrcoc.budget);
}

}  // namespace

FamilyPrices arrcoc_prices() {
  return {.shares = region_shares, .note = regions_note, .small_operators = arrcoc_operators};
}

}  // namespace trireme::planner
