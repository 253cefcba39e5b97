// Bell: wakes threads, of this or of another process, that wait for memory to change.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace trireme::comm {

// Lives in memory that all concerned share; zero bytes are a valid bell.
class alignas(64) Bell {
 public:
  using Clock = std::chrono::steady_clock;

  // Call it after the change. Costs nothing but memory traffic while no thread sleeps.
  void ring();

  // Blocks until ready(), which must be cheap, or until the deadline; returns which. It polls for a moment, then yields
  // the core between polls for as long as waking a sleeper would take; then it sleeps.
  template <typename Ready>
  bool wait(Ready ready, Clock::time_point deadline) {
    for (int look = 0; look < kLooks; ++look) {
      if (ready()) return true;
      pause();
    }
    const auto begin = Clock::now();
    while (Clock::now() - begin < kPatience) {
      if (ready()) return true;
      yield();
    }
    for (;;) {
      // The ringer uses the opposite order: either it sees the sleeper, or the sleeper sees the ring.
      const std::uint32_t heard = rings_.load();
      sleepers_.fetch_add(1);
      const bool come = ready();
      if (!come) sleep(heard, deadline);
      sleepers_.fetch_sub(1);
      if (come || ready()) return true;
      if (Clock::now() >= deadline) return false;
    }
  }

 private:
  static constexpr int kLooks = 10;
  static constexpr std::chrono::microseconds kPatience{20};
  static void pause();
  static void yield();
  // Until the bell rings after `heard`, the deadline, or for no reason.
  void sleep(std::uint32_t heard, Clock::time_point deadline);

  std::atomic<std::uint32_t> rings_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace trireme::comm
