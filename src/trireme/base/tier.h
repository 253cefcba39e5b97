// Tiers of memory that a step offloads to.
#pragma once

#include <cstdint>
#include <string_view>

namespace trireme {

// Where something waits while a step has no use for it.
enum class Tier : std::uint8_t {
  kNone,  // in memory
  kHost,  // in host memory
  kNvme,  // on a disk
  kTp,    // values: each tensor-parallel rank keeps a part of what all of them have
};
std::string_view name(Tier tier);  // "none", "host", "nvme", "tp"

}  // namespace trireme
