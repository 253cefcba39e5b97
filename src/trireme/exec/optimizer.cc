#include "trireme/exec/optimizer.h"

#include "trireme/base/error.h"

namespace trireme::exec {

MatrixOptimizer& Optimizer::by_matrix() {
  fail(ErrorKind::kInternal, "an optimizer that updates element by element has no matrices");
}

}  // namespace trireme::exec
