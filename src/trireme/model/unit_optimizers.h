// Optimizers of a model's units.
#pragma once

#include <string_view>

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// Gives every unit that trains its optimizer, and divides units whose parameters have several: those with most elements
// keep the unit, others go to units of their own, named after it and the optimizer. Averages are divided along with what
// they follow. A matrix optimizer updates weights of linear layers that blocks list (Layer); what it leaves is
// config::elementwise()'s. A group of parameters may name another optimizer. `tp`: ranks that share matrices. Throws
// Error{kUsage} for a group that names a matrix optimizer and has no matrix.
void set_optimizers(const config::Optim& optim, int tp, ModelSpec& spec);

// The name of a unit before it was divided.
std::string_view undivided_name(const UnitSpec& unit);

}  // namespace trireme::model
