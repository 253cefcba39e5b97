// SIGINT and SIGTERM as a number that the trainer looks at.
#pragma once

#include <atomic>
#include <thread>

namespace trireme::app {

// While it lives, the first SIGINT or SIGTERM becomes first(); a second SIGINT ends the process at
// once with exit code 130. Made before any other thread, so that these inherit the blocked mask.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  const std::atomic<int>& first() const { return first_; }

 private:
  void watch();

  std::atomic<int> first_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

}  // namespace trireme::app
