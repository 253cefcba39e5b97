// In which types values and a unit's parameters, gradients and optimizer states are kept, and what they take.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/plan/program.h"
#include "trireme/plan/recipe.h"

namespace trireme::plan {

// Type of a value's elements.
DType value_type(const Recipe& recipe, const Value& value);

// Type of the parameters as blocks see them.
DType param_type(const Recipe& recipe, const Unit& unit);

// Whether what the optimizer steps is a second copy of the parameters.
bool has_master_copy(const Recipe& recipe, const Unit& unit);

// Type of the parameters in checkpoints: that of the copy if there is one.
DType stored_type(const Recipe& recipe, const Unit& unit);

// Whether such a copy holds only the bits beyond the parameters. bf16 is the upper half of fp32, and the lower half is
// enough if both are in memory all the time, and parameters are no codes.
bool splits_masters(const Recipe& recipe, const Unit& unit);

// Bytes of the copy for each element; 0 if there is no copy.
std::int64_t master_bytes(const Recipe& recipe, const Unit& unit);

// Type of gradients between ranks.
DType reduce_type(const Recipe& recipe);

// Parameter elements for one scale of 8-bit states, chosen so that shards hold whole blocks.
std::int64_t state_block(std::int64_t numel);

// Bytes of the optimizer states of `count` elements of a trainable unit, which are a shard's: of each tensor, and of
// all. A state in 8 bits is two tensors, codes and scales.
std::vector<std::int64_t> state_tensors(const Recipe& recipe, const Unit& unit, std::int64_t count);
std::int64_t state_bytes(const Recipe& recipe, const Unit& unit, std::int64_t count);

}  // namespace trireme::plan
