// From a resolved job to the description of its model.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// The family's spec for the rank with most of each, with recomputation and stages as the job says. Throws Error{kUsage}
// for patterns of units that match none, or leave none to train.
ModelSpec describe(const config::Job& job);

}  // namespace trireme::model
