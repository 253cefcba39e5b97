// The families' models: one entry each.
#pragma once

#include "trireme/config/families.h"
#include "trireme/config/job.h"
#include "trireme/model/account/per_rank.h"
#include "trireme/model/loss_label.h"
#include "trireme/model/spec.h"
#include "trireme/model/training.h"

namespace trireme::model {

struct FamilyModel {
  config::Family family;
  ModelSpec (*describe)(const config::Job&, const PerRank&, const Training&);
  LossLabel (*loss)(const config::Job&);
};

const FamilyModel& family_model(config::Family family);

}  // namespace trireme::model
