#include "trireme/plan/compile/forward_only.h"

namespace trireme::plan {

Program forward_only(Program program) {
  program.name += ".eval";
  for (Node& node : program.nodes) {
    node.no_grad = true;
    node.segment = -1;
  }
  for (Unit& unit : program.units) {
    unit.trainable = unit.by_matrix = false;
    unit.ema_of = -1;
  }
  return program;
}

}  // namespace trireme::plan
