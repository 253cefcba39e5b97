// The families' models, made from cmake/families.cmake: `NAME_model()` of each.
#pragma once

#include "trireme/config/families.h"
#include "trireme/config/job.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/loss_label.h"

namespace trireme::model {

struct FamilyModel {
  config::Family family{};  // the list's
  DescribeRank describe;
  LossLabel (*loss)(const config::Job&);
};

const FamilyModel& family_model(config::Family family);

// Losses that several families have: of tokens, of the tokens of answers, of a sample's class, of features.
LossLabel loss_of_tokens(const config::Job& job);
LossLabel loss_of_answers(const config::Job& job);
LossLabel loss_of_classes(const config::Job& job);
LossLabel loss_of_features(const config::Job& job);
inline constexpr char kNatsPerSample[] = "nats/sample";

}  // namespace trireme::model
