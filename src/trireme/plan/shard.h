// How a unit's flat parameters are cut: one rule for plan, executor, optimizer and checkpoint.
#pragma once

#include <cstdint>

namespace trireme::plan {

// Number of elements in a chunk of a gradient norm's sum: a power of two that depends on the unit alone, so that any
// sharding has the same partial sums.
std::int64_t norm_chunk(std::int64_t numel);

// Elements of one of `n` shards: the smallest multiple of norm_chunk(numel) with n * shard >= numel.
// Shard k is [k * shard, (k + 1) * shard) of the unit padded with zeros.
std::int64_t shard_numel(std::int64_t numel, int n);

}  // namespace trireme::plan
