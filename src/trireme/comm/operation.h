// Operation: one call on a Group, checked and brought to one form that every back end understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"

namespace trireme::comm {

enum class Reduce : std::uint8_t { kSum, kMax, kAvg };

enum class Verb : std::uint8_t {
  kAllReduce,
  kReduceScatter,
  kAllGather,
  kBroadcast,
  kAllToAll,
  kSend,
  kRecv,
  kBarrier,
};

std::string_view name(Reduce reduce);  // "sum", "max", "avg"
std::string_view name(Verb verb);      // "all_reduce", ...

// Counts are elements of `type`; memory is contiguous. Which fields a verb uses:
//   all_reduce      in == out, out_counts: the split of the buffer over the ranks
//   reduce_scatter  in: all slices (in_counts), out: this rank's slice
//   all_gather      in: this rank's slice, out: all slices (out_counts)
//   broadcast       in == out, out_counts: as all_reduce, peer: root
//   all_to_all      in: slices by destination (in_counts), out: slices by source (out_counts)
//   send / recv     in / out, in_counts / out_counts of one element, peer
struct Operation {
  Verb verb = Verb::kBarrier;
  Reduce reduce = Reduce::kSum;
  DType type = DType::kU8;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::vector<std::int64_t> in_counts{};
  std::vector<std::int64_t> out_counts{};
  int peer = 0;
  int line = -1;  // of the rank's plan, that asked for it; ranks may differ

  // Elements that all slices of the larger side hold together.
  std::int64_t count() const;
  std::size_t bytes() const { return static_cast<std::size_t>(count()) * size_of(type); }
};

// Up to here an operation takes less time than waking a thread, and one message of everything less than
// two rounds of slices.
constexpr std::size_t kSmallBytes = 8 * 1024;

// The sum of `counts`.
std::int64_t total(std::span<const std::int64_t> counts);

// Even split of `count` elements over `parts`: the first count % parts get one more.
std::vector<std::int64_t> even_split(std::int64_t count, int parts);

}  // namespace trireme::comm
