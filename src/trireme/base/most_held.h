// What the worker's arena (apps/worker/memory) may hold: the arena keeps to it, and forecasts of a process count on it.
#pragma once

#include <cstddef>

namespace trireme {

// Whole huge pages: the arena grows by them.
inline constexpr std::size_t kArenaGrowth = std::size_t{2} << 20;

// Most bytes held where at most `used` bytes were in use at once. Gaps of equal steps take 2 to 5 % (docs/performance.md).
constexpr std::size_t most_held(std::size_t used) { return used + used / 16 + 2 * kArenaGrowth; }

}  // namespace trireme
