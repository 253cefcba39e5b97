#include "trireme/planner/cost/expected_share.h"

#include "trireme/planner/cost/families.h"

namespace trireme::planner {

Shares tower_shares(double share, double fullest) {
  const auto of = [share](std::string_view node) {
    const bool tower =
        node.starts_with("vision.") || node.starts_with("deepstack.") || node == "projector";
    return tower ? share : 1;
  };
  return {.of = of, .varies = share < 1, .fullest = fullest};
}

ExpectedShare::ExpectedShare(const config::Job& job) {
  if (const auto shares = family_prices(job.model.family).shares) shares_ = shares(job);
}

double ExpectedShare::of(std::string_view node) const { return shares_.of ? shares_.of(node) : 1; }

}  // namespace trireme::planner
