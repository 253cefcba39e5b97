#include "trireme/planner/cost/small_operators.h"

namespace trireme::planner {

SmallOperators small_operators_of(double forward, double backward, double bytes) {
  SmallOperators all;
  if (forward > 0) all.forward.push_back(operators(bytes, forward));
  if (backward > 0) all.backward.push_back(operators(0, backward));
  return all;
}

}  // namespace trireme::planner
