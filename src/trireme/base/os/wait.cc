#include "trireme/base/os/wait.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace trireme::os {

void wait(std::initializer_list<int> descriptors, double seconds) {
  constexpr double kLongest = 3600;
  std::vector<pollfd> watched;
  for (const int fd : descriptors) watched.push_back({fd, POLLIN, 0});
  // Rounded up: a wait that ends too early would be followed by another of no length, and so on.
  const double milliseconds = std::ceil(1000 * std::clamp(seconds, 0.0, kLongest));
  ::poll(watched.data(), watched.size(), static_cast<int>(milliseconds));
}

}  // namespace trireme::os
