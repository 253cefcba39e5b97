// Observer: looks on while a step runs and has no part in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/exec/units/units.h"

namespace trireme::exec {

// Called in the rank's thread. Its arguments may be freed or overwritten later: copy them to keep them.
class Observer {
 public:
  virtual ~Observer() = default;

  // A forward has written a value of a global micro-batch; not called for a recomputation.
  virtual void on_activation(plan::ValueId value, std::int64_t micro_batch,
                             const at::Tensor& tensor) = 0;
  // This rank's own gradient of a unit is complete for a global micro-batch, before it is added to others. It is flat,
  // as this tp rank holds the unit (units.element_name() names its elements).
  virtual void on_micro_batch_gradient(const Units& /*units*/, plan::UnitId /*unit*/,
                                       std::int64_t /*micro_batch*/, const at::Tensor& /*flat*/) {}
  // Gradients of the step are reduced (units.gradient_slices()), not yet clipped or applied.
  virtual void on_gradients(const Units& units) = 0;
};

}  // namespace trireme::exec
