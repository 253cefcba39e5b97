// Costs of nodes, as a run of the model recorded them.
#pragma once

#include <string>
#include <string_view>

#include "trireme/plan/program.h"

namespace trireme::model {

// Seconds of every node, as parallel.costs names them: {"nodes": {NAME: {"forward", "input", "weight"}}}, other keys being
// free. Throws Error{kData} beginning with `what`.
void read_costs(std::string_view text, const std::string& what, plan::Program& program);

}  // namespace trireme::model
