#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "trireme/families/hnet/keys_stages.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {

namespace {

// One chunk of a stage's ratio.
Shares stage_shares(const config::Job& job) {
  std::vector<double> stages;
  double share = 1;
  for (const config::HnetStage& stage : config::hnet_stages(job.hnet)) {
    stages.push_back(share);
    share /= std::max(stage.ratio, 1.0);
  }
  const bool varies = std::ranges::any_of(stages, [](double one) { return one < 1; });
  const auto of = [stages = std::move(stages)](std::string_view node) {  // "s1.route" and its like
    if (node.size() < 3 || node[0] != 's') return 1.0;
    const std::size_t stage = static_cast<std::size_t>(node[1] - '0');
    return node[2] == '.' && stage < stages.size() ? stages[stage] : 1.0;
  };
  return {.of = of, .varies = varies, .counted = true};
}

std::string stages_note(const config::Job& job, const ExpectedShare&) {
  return fmt::format(
      "time is priced at one chunk of hnet.ratio={} positions; memory at as many "
      "chunks as positions",
      job.hnet.ratio);
}

// families/hnet/blocks: where sequences begin, routers by cosines, and chunks smoothed by a scan.
SmallOperators hnet_operators(const config::Job&, std::string_view node) {
  constexpr double kSequences = 8;
  if (node.ends_with(".route")) return small_operators_of(kSequences + 40, 40);
  if (node.ends_with(".join")) return small_operators_of(2 * kSequences + 50, 60);
  if (node.ends_with(".ratio")) return small_operators_of(kSequences + 20, 20);
  if (node != "embed" && node != "head") return small_operators_of(kSequences, 0);
  return {};
}

}  // namespace

FamilyPrices hnet_prices() {
  return {.shares = stage_shares, .note = stages_note, .small_operators = hnet_operators};
}

}  // namespace trireme::planner
