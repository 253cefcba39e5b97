// Memory where rows vary: the bound of all rows, and what is expected.
#include "trireme/planner/cost/expected_memory.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/harness/vjepa_jobs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/memory.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/planner/cost/expected_share.h"

namespace trireme::planner::expected_memory_test {
namespace {

struct Peaks {
  double bound = 0, expected = 0;
  bool varies = false;
};

Peaks peaks(config::Family family, const std::vector<std::string>& sets = {}) {
  const config::Job given = harness::vjepa_job(family, sets);
  const config::Job job =
      config::resolve(given, 1, config::synthetic_source(given.data.source)->facts);
  const plan::PlanSet plan =
      plan::compile(model::describe(job).program, model::mesh_of(job), model::recipe_of(job));
  const auto peak = [](const plan::PlanSet& of) {
    return static_cast<double>(plan::memory_account(of, 0).peak_of_tensors());
  };
  return {.bound = peak(plan),
          .expected = peak(with_expected_rows(plan, job)),
          .varies = ExpectedShare(job).varies()};
}

TEST(ExpectedMemory, IsLessThanTheBoundWhereRowsVary) {
  for (const config::Family family : {config::Family::kJepa, config::Family::kHvjepa}) {
    const Peaks all = peaks(family, {"vision.hidden=96", "run.micro_batch=8"});
    EXPECT_TRUE(all.varies);
    EXPECT_LT(all.expected, 0.9 * all.bound);
    EXPECT_GT(all.expected, 0.2 * all.bound);
  }
}

TEST(ExpectedMemory, OfTheFullestMicroBatchIsBetweenExpectationAndBound) {
  const config::Job given =
      harness::vjepa_job(config::Family::kJepa, {"vision.hidden=96", "run.micro_batch=8"});
  const config::Job job =
      config::resolve(given, 1, config::synthetic_source(given.data.source)->facts);
  const plan::PlanSet plan =
      plan::compile(model::describe(job).program, model::mesh_of(job), model::recipe_of(job));
  const auto fullest =
      static_cast<double>(plan::memory_account(with_fullest_rows(plan, job), 0).peak_of_tensors());
  const Peaks all = peaks(config::Family::kJepa, {"vision.hidden=96", "run.micro_batch=8"});
  EXPECT_GT(fullest, 1.02 * all.expected);
  EXPECT_LE(fullest, 1.2 * all.expected);
  EXPECT_LT(fullest, all.bound);
}

TEST(ExpectedMemory, IsTheBoundWhereNothingVaries) {
  const Peaks all = peaks(config::Family::kJepaAc);
  EXPECT_FALSE(all.varies);
  EXPECT_EQ(all.expected, all.bound);
}

// Fewer rows seen, less memory expected; the bound stays.
TEST(ExpectedMemory, FollowsTheMasks) {
  const std::vector<std::string> wide = {"vision.hidden=96", "run.micro_batch=8"};
  std::vector<std::string> masked = wide;
  for (const char* set : {"jepa.masks=8x0.6,2x0.7", "jepa.masks=8x0.15,2x0.9"})
    masked.push_back(set);
  const Peaks open = peaks(config::Family::kJepa, wide);
  const Peaks closed = peaks(config::Family::kJepa, masked);
  EXPECT_EQ(open.bound, closed.bound);
  EXPECT_LT(closed.expected, open.expected);
}

}  // namespace
}  // namespace trireme::planner::expected_memory_test
