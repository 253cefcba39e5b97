// Time of day, for people and for what puts lines of several files in order.
#pragma once

#include <chrono>

namespace trireme::train {

// Seconds since 1970.
inline double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace trireme::train
