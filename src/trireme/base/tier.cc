#include "trireme/base/tier.h"

#include <array>
#include <cstddef>

namespace trireme {

std::string_view name(Tier tier) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "host", "nvme", "tp"};
  return kNames[static_cast<std::size_t>(tier)];
}

}  // namespace trireme
