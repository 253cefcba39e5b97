// Two checkpoints compared, whatever layouts wrote them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trireme/checkpoint/convert/state_reader.h"

namespace trireme::convert {

// An element that is not the same in both.
struct Difference {
  std::string parameter;
  std::string kind;          // "param", "exp_avg", ...
  std::int64_t element = 0;  // of the whole parameter; of kinds with blocks, the block of the unit
  double a = 0, b = 0;
  std::uint64_t ulps = 0;  // of the coarser type; of whole numbers, their difference
};

struct Comparison {
  std::int64_t tensors = 0, elements = 0;  // compared
  std::int64_t tensors_that_differ = 0, elements_that_differ = 0;
  std::optional<Difference> first;          // in the order of the model
  std::optional<Difference> largest;        // in ulps
  std::vector<std::string> only_a, only_b;  // kinds of parameters that the other lacks
};

// Equal bits are equal; so are both zeros, and NaN and NaN. One parameter's elements are in memory at a time.
// `specs` are those of both readers. Shapes are the model's.
Comparison compare(const StateReader& a, const StateReader& b,
                   const std::vector<model::UnitSpec>& specs);

}  // namespace trireme::convert
