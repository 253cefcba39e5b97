#include <gtest/gtest.h>

#include "tests/plan/matrix_plans.h"
#include "trireme/plan/simulate/cost.h"

namespace trireme::plan {
namespace {

TEST(MatrixUpdates, HaveAPrice) {
  const PlanSet plan = matrix_plan({.dp_shard = 2}, {.zero = 1});
  double moved = 0, operations = 0;
  for (const Instr& line : plan.list(0)) {
    if (line.verb == Verb::kExchangeUpdate) moved += simulate::sent_bytes(plan, line);
    if (line.verb == Verb::kUpdateMatrices) operations += simulate::matrix_flops(plan, line.unit);
  }
  EXPECT_GT(moved, 0);
  EXPECT_LE(moved, 2 * 2 * 12288 * 4);
  EXPECT_GT(operations, 0);
}

}  // namespace
}  // namespace trireme::plan
