// Stop signals (base/os/stop.h) as a number that the trainer looks at.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "trireme/base/os/stop.h"

namespace trireme::app {

// While it lives, the first stop signal calls first(), also one that was pending before this program began. A further
// SIGINT ends the process with exit code os::kEndedUnsaved. Made before any other thread, so that these inherit the
// blocked mask.
class Interrupts {
 public:
  // `note` says to people what follows from the first signal; none: another process does, or there is nothing to say.
  explicit Interrupts(std::function<void(const std::string&)> note = {});
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  const std::atomic<int>& first() const { return first_; }

 private:
  void watch();
  void take(int signal);

  std::function<void(const std::string&)> note_;
  sigset_t watched_ = os::stop_signals();
  os::StopRequest request_;
  std::atomic<int> first_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace trireme::app
