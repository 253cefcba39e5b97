#include "trireme/plan/recipe.h"

#include <limits>

#include "trireme/base/error.h"

namespace trireme::plan {

int summed_in_row(const Recipe& recipe) {
  return recipe.canonical ? recipe.group : std::numeric_limits<int>::max();
}

DataParallelRow data_parallel_row(int zero) {
  TRIREME_CHECK(zero >= 0 && zero <= 3, "ZeRO-{} is not a row of the lifetime table (0..3)", zero);
  return {.sharded_states = zero >= 1,
          .sharded_params = zero == 3,
          .reduce_each_mb = zero >= 2,
          .unshard_after_step = zero == 1 || zero == 2};
}

}  // namespace trireme::plan
