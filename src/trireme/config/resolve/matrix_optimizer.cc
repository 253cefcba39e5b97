#include "trireme/config/resolve/matrix_optimizer.h"

namespace trireme::config {

const OptimizerInfo* matrix_optimizer(const Optim& optim) {
  if (info(optim.name).by_matrix()) return &info(optim.name);
  for (const ParamGroup& group : optim.groups)
    if (group.name && info(*group.name).by_matrix()) return &info(*group.name);
  return nullptr;
}

const OptimizerInfo& elementwise(const Optim& optim) {
  return info(info(optim.name).by_matrix() ? kElementwise : optim.name);
}

}  // namespace trireme::config
