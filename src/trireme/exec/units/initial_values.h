// The values with which parameters begin.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

#include "trireme/model/spec.h"

namespace trireme::exec {

// The source of a parameter's draws, a function of seed and name: of no layout, and of no other parameter.
at::Generator initial_generator(const model::ParamSpec& param, std::uint64_t seed);

// The next `count` values, fp64; `first` is the number of those before. Drawn ones follow one another in `generator`.
at::Tensor initial_values(const model::ParamSpec& param, std::int64_t first, std::int64_t count,
                          at::Generator generator);
inline constexpr std::int64_t kDrawn = 1 << 20;  // values that exist at a time

// The norms of the rows of param.norms_of as it begins, fp64.
at::Tensor initial_norms(const model::ParamSpec& param, std::uint64_t seed);

}  // namespace trireme::exec
