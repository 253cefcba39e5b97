// How a count of things is shared out among ranks that take unlike numbers of them.
#pragma once

#include <cstdint>

namespace trireme::mesh {

struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t count() const { return end - begin; }
};

// Things [begin, end) of 0 .. count-1 that part `index` of `parts` takes: consecutive, and as even as whole
// things go.
constexpr Share share(std::int64_t count, int index, int parts) {
  return {.begin = count * index / parts, .end = count * (index + 1) / parts};
}

}  // namespace trireme::mesh
