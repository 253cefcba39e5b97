// A pulse: a fixed set of products, repeated for some hundredths of a second, that measures the present speed of a
// core.
#pragma once

#include <ATen/core/Tensor.h>

#include "trireme/base/dtype.h"

namespace trireme::app {

class Pulse {
 public:
  // In the type in which the CPU multiplies what is computed in `compute`.
  explicit Pulse(DType compute);
  double seconds() const;  // of one, now

 private:
  at::Tensor a_;
  int products_;
};

}  // namespace trireme::app
