// Postponed: the one operation of a rank that its lane has not been told of.
#pragma once

#include <mutex>

#include "trireme/comm/ticket.h"

namespace trireme::comm {

// Waking a lane takes longer than a small collective, which is nearly always waited for at once. So the
// lane of such an operation is told of it only when the rank does something else first: submits or waits
// for another, or asks whether one is done. Shared by the groups of a rank.
class Postponed {
 public:
  // Makes `runner` (or nobody: null) the one who holds a postponed operation. The one before begins,
  // unless it is `self`, who sees to it himself.
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
