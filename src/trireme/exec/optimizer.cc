#include "trireme/exec/optimizer.h"

#include "trireme/base/error.h"

namespace trireme::exec {

MatrixOptimizer& Optimizer::by_matrix() {
  fail(ErrorKind::kInternal, "the optimizer of {} states updates element by element",
       states().size());
}

}  // namespace trireme::exec
