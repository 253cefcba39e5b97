#include "trireme/launch/elastic/backoff.h"

#include <algorithm>
#include <string>

#include "trireme/launch/elastic/secret.h"

namespace trireme::elastic {

double Backoff::next() {
  constexpr double kByteValues = 256;
  const auto drawn = static_cast<unsigned char>(random_bytes(1).front());
  const double pause = bound_s_ * (0.5 + 0.5 * drawn / kByteValues);
  bound_s_ = std::min(2 * bound_s_, longest_s_);
  return pause;
}

}  // namespace trireme::elastic
