// From a resolved job to the description of its model.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

// The family's spec for the rank with most of each, with recomputation and stages as the job says. Throws Error{kUsage}
// for patterns of units that match none, or leave none to train.
ModelSpec describe(const config::Job& job);

// The model of one rank, before recomputation and stages.
using DescribeRank = ModelSpec (*)(const config::Job&, const PerRank&, const Training&);
// The same for a model that is no family's; keys and checks are those of the job's family.
ModelSpec describe(const config::Job& job, DescribeRank of_rank);

}  // namespace trireme::model
