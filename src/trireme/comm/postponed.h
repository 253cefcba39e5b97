// Postponed: the one operation of a rank that has not been passed to its lane.
#pragma once

#include <mutex>

#include "trireme/comm/ticket.h"

namespace trireme::comm {

// Waking a lane takes longer than a small collective, which is nearly always waited for at once. Such an operation is
// therefore passed to its lane only when the rank does something else first: submits or waits for another, or asks
// whether one is done. Shared by the groups of a rank.
class Postponed {
 public:
  // Makes `runner` (null: no runner) the holder of a postponed operation. The previous holder's operation begins,
  // unless the holder is `self`, which begins it itself.
  void replace(Runner* runner, const Runner* self = nullptr) {
    std::lock_guard lock(mutex_);
    if (held_ != nullptr && held_ != self) held_->begin();
    held_ = runner;
  }

 private:
  std::mutex mutex_;
  Runner* held_ = nullptr;
};

}  // namespace trireme::comm
