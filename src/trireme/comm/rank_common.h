// What all groups of one rank have in common.
#pragma once

#include <memory>

#include "trireme/comm/postponed.h"
#include "trireme/flight/recorder.h"

namespace trireme::comm {

struct RankCommon {
  Postponed postponed;
  std::shared_ptr<flight::Recorder> flight = std::make_shared<flight::Recorder>();
};

}  // namespace trireme::comm
