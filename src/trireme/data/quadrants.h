// Made-up images of four patterns, with a question about one of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/data/made_up.h"

namespace trireme::data {

enum class QuadrantPattern { kRows, kColumns, kDiagonal, kChecker };

// Of each: float [3, image, image] in [0, 1], grey but for noise of 0.02; the quadrant asked about, int64, by rows; the
// token of its pattern, int64 [1]; and arrcoc.grid^2 draws of N(0, 1), float. Every quadrant has bands of 2 pixels with
// an amplitude of 0.4 around 0.5 and a random phase.
std::vector<at::Tensor> quadrants(const config::Job& job, std::span<const std::int64_t> numbers);

Sources open_quadrants(const config::Job& job);

}  // namespace trireme::data
