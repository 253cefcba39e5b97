#include <fmt/format.h>

#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

std::string stages_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at one chunk of hnet.ratio={} positions; memory at as many "
      "chunks as positions",
      job.hnet.ratio);
}

}  // namespace

FamilyPrices hnet_prices() {
  return {.shares = stage_shares,
          .note = stages_note,
          .small_operators = hnet_operators,
          .extra = BlockExtra{.activated = 4, .turned = 32, .operations = 20},
          .causal = true};
}

}  // namespace trireme::planner
