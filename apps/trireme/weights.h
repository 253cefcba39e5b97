// The weights that a run begins with, as far as they can be judged without tensors.
#pragma once

#include <string>

#include "trireme/arch/spec.h"
#include "trireme/base/fs.h"

namespace trireme::app {

// One line about model.weights: from which step, and which of its parameters the model has no place for. Throws
// Error{kData} where no checkpoint is, or a parameter has another shape.
std::string describe_weights(const Path& directory, const arch::ModelSpec& model);

}  // namespace trireme::app
