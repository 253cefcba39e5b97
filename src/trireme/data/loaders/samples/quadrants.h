// Made-up images of four patterns, with a question about one of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {

enum class QuadrantPattern { kRows, kColumns, kDiagonal, kChecker };

// What model::arrcoc_spec reads of the images with these numbers: grey in [0, 1] but for noise of 0.02, every quadrant with
// bands of 2 pixels, an amplitude of 0.4 around 0.5 and a random phase. The question is the number of a quadrant, by
// rows; the answer the token of its pattern.
std::vector<at::Tensor> quadrants(const config::Job& job, std::span<const std::int64_t> numbers);

Sources open_quadrants(const config::Job& job);

}  // namespace trireme::loaders
