// How a budget of tokens is shared out among the regions of an image.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace trireme::blocks {

// A region has level * level tokens.
struct Levels {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::int64_t budget = 0;  // tokens of all regions of an image, within what the levels allow

  std::int64_t least_tokens() const { return least * least; }
  std::int64_t most_tokens() const { return most * most; }
};

// Tensions z, [b, regions] -> tokens n = least^2 + (most^2 - least^2) sigmoid((z - lambda) / temperature), fp64.
// Bisection finds the lambda of each image for which its tokens add up to its budget. Gradients follow by the implicit
// function theorem with the slopes g. They are g_p (delta_pq - g_q / sum of g), so that rows and columns add up to 0,
// and g_p / sum of g for the budget. `budget`: tokens of each image, [b, 1], at most that of `levels`, which is the
// default if undefined.
at::Tensor soft_counts(const at::Tensor& z, const Levels& levels, double temperature,
                       const at::Tensor& budget = {});

// Tokens [b, regions], fp64, -> levels, int64 on the CPU. Each level is the root rounded down. Then regions get one
// more at a time: the region furthest below its tokens among those that still fit into the sum, the first of equals.
at::Tensor hard_levels(const at::Tensor& counts, const Levels& levels);

}  // namespace trireme::blocks
