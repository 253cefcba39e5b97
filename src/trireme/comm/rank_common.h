// State shared by all groups of one rank.
#pragma once

#include <memory>

#include "trireme/comm/postponed.h"
#include "trireme/launch/watch/recorder.h"

namespace trireme::comm {

struct RankCommon {
  Postponed postponed;
  std::shared_ptr<watch::Recorder> flight = std::make_shared<watch::Recorder>();
};

}  // namespace trireme::comm
