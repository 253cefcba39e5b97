#include "trireme/plan/shard.h"

#include <algorithm>
#include <bit>

#include "trireme/base/error.h"

namespace trireme::plan {

std::int64_t norm_chunk(std::int64_t numel) {
  TRIREME_CHECK(numel >= 0, "a unit of {} elements", numel);
  const auto target = static_cast<std::uint64_t>(std::max<std::int64_t>(numel / 4096, 1));
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(target)), 16, 65536);
}

std::int64_t shard_numel(std::int64_t numel, int n) {
  TRIREME_CHECK(n >= 1, "{} shards", n);
  const std::int64_t chunk = norm_chunk(numel);
  const std::int64_t part = (numel + n - 1) / n;
  return (part + chunk - 1) / chunk * chunk;
}

}  // namespace trireme::plan
