#include "trireme/comm/operation.h"

#include <algorithm>
#include <numeric>

namespace trireme::comm {

std::string_view name(Reduce reduce) {
  constexpr std::string_view kNames[] = {"sum", "max", "avg"};
  return kNames[static_cast<std::size_t>(reduce)];
}

std::string_view name(Verb verb) {
  constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                         "all_to_all", "send",           "recv",       "barrier"};
  return kNames[static_cast<std::size_t>(verb)];
}

std::int64_t total(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

std::int64_t Operation::count() const { return std::max(total(in_counts), total(out_counts)); }

std::vector<std::int64_t> even_split(std::int64_t count, int parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(parts), count / parts);
  for (std::int64_t i = 0; i < count % parts; ++i) ++counts[i];
  return counts;
}

}  // namespace trireme::comm
