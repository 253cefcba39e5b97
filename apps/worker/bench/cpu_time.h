// CPU time of this process.
#pragma once

#include <ctime>

namespace trireme::app {

// Seconds of CPU time that all threads of this process have used.
inline double process_cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace trireme::app
