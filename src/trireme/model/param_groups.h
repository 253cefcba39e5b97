// optim.groups on the parameters of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/spec.h"

namespace trireme::model {

// Gives each trainable parameter the factors of the last group whose patterns match its name or its unit's. The rate of
// the group multiplies that of the family; its weight decay replaces it. Throws Error{kUsage} for a pattern or group
// without trainable parameters, and for a weight decay that optim.weight_decay=0 has no multiple for.
void set_groups(const config::Optim& optim, ModelSpec& spec);

// The last group whose patterns match the parameter's name or its unit's; null: none.
const config::ParamGroup* group_of(const config::Optim& optim, const UnitSpec& unit,
                                   const ParamSpec& param);

// Trainable parameters of a group that have the same factors.
struct GroupCount {
  std::string match;  // of the group; empty: in no group
  double lr = 1;      // multiplies the learning rate
  double weight_decay = 0;
  config::Optimizer optimizer = config::Optimizer::kAdamW;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
};

// Of a model with these groups: those in no group first, then groups in their order.
std::vector<GroupCount> count_groups(const config::Optim& optim, const ModelSpec& spec);

}  // namespace trireme::model
