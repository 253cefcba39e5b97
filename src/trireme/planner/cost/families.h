// What is priced of each family in addition to layers, norms and attention: `NAME_prices()` of each that has prices.cc.
#pragma once

#include <string>
#include <string_view>

#include "trireme/config/job.h"
#include "trireme/planner/cost/expected_share.h"
#include "trireme/planner/cost/small_operators.h"

namespace trireme::planner {

// All of it may be left out.
struct FamilyPrices {
  config::Family family{};  // the list's
  Shares (*shares)(const config::Job&) = nullptr;
  // Note for the user on what is assumed of rows that vary; empty: nothing.
  std::string (*note)(const config::Job&, const ExpectedShare&) = nullptr;
  SmallOperators (*small_operators)(const config::Job&, std::string_view node) = nullptr;
};

const FamilyPrices& family_prices(config::Family family);

}  // namespace trireme::planner
