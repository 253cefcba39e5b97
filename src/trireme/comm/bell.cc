#include "trireme/comm/bell.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace trireme::comm {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) {
  // Not the private kind: the word may be another process's as well.
  ::syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, timeout, nullptr,
            0);
}

}  // namespace

void Bell::pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void Bell::yield() { ::sched_yield(); }

void Bell::ring() {
  rings_.fetch_add(1);
  if (sleepers_.load() > 0) futex(rings_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Bell::sleep(std::uint32_t heard, Clock::time_point deadline) {
  const auto left =
      std::max(std::chrono::nanoseconds(deadline - Clock::now()), std::chrono::nanoseconds(0));
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  timespec timeout{};
  timeout.tv_sec = static_cast<std::time_t>(seconds.count());
  timeout.tv_nsec = static_cast<long>((left - seconds).count());
  futex(rings_, FUTEX_WAIT, heard, &timeout);
}

}  // namespace trireme::comm
