// Synthetic images of four patterns, with a question about one of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trireme/data/loaders/samples/synthetic.h"

namespace trireme::loaders {

enum class QuadrantPattern { kRows, kColumns, kDiagonal, kChecker };

// Inputs of model::arrcoc_spec for the images with these numbers: grey in [0, 1] except for noise of 0.02. Every
// quadrant has bands of 2 pixels, an amplitude of 0.4 around 0.5 and a random phase. The question is the number of a
// quadrant, by rows; the answer the token of its pattern.
std::vector<at::Tensor> quadrants(const config::Job& job, std::span<const std::int64_t> numbers);

Sources open_quadrants(const config::Job& job);

}  // namespace trireme::loaders
