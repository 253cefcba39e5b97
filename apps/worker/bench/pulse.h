// A pulse: the same few products again, for some hundredths of a second, which tell how fast a core is at the moment.
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
