// From a resolved job to the description of its model.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// The family's spec, on the rank with most of each, with what runs again and the stages as the job says. Throws
// Error{kUsage} for patterns of units that name none, or leave none to train.
ModelSpec describe(const config::Job& job);

}  // namespace trireme::model
