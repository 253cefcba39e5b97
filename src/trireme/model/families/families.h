// The families' models: one entry each.
#pragma once

#include "trireme/config/families.h"
#include "trireme/config/job.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/loss_label.h"

namespace trireme::model {

struct FamilyModel {
  config::Family family;
  DescribeRank describe;
  LossLabel (*loss)(const config::Job&);
};

const FamilyModel& family_model(config::Family family);

}  // namespace trireme::model
