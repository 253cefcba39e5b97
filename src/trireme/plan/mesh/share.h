// How a count of things is shared out among ranks that take unlike numbers of them.
#pragma once

#include <cstdint>

namespace trireme::mesh {

struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  constexpr std::int64_t count() const { return end - begin; }
  bool operator==(const Share&) const = default;
};

// Things [begin, end) of 0 .. count-1 that part `index` of `parts` takes: consecutive, and as even as whole
// things go.
constexpr Share share(std::int64_t count, int index, int parts) {
  return {.begin = count * index / parts, .end = count * (index + 1) / parts};
}

// Granules that `things` need where each `sharers` things in a row share one: the key-value heads that query
// heads read. Neighbouring parts may need the same one.
constexpr Share granules_of(const Share& things, std::int64_t sharers) {
  const std::int64_t begin = things.begin / sharers;
  if (things.count() == 0) return {.begin = begin, .end = begin};
  return {.begin = begin, .end = (things.end - 1) / sharers + 1};
}

}  // namespace trireme::mesh
