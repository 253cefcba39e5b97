#include "trireme/planner/cost/expected_share.h"

#include "trireme/planner/cost/families.h"

namespace trireme::planner {

ExpectedShare::ExpectedShare(const config::Job& job) {
  if (const auto shares = family_prices(job.model.family).shares) shares_ = shares(job);
}

double ExpectedShare::of(std::string_view node) const { return shares_.of ? shares_.of(node) : 1; }

}  // namespace trireme::planner
