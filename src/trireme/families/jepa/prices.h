// Shares of a clip's tokens under masks.
#pragma once

#include <cstdint>

#include "trireme/config/job.h"
#include "trireme/planner/cost/expected_share.h"

namespace trireme::planner {

// Seen by the student, and guessed by the predictor.
struct MaskShares {
  double seen = 0;
  double hidden = 0;
};

// Of the student and the predictor, on average over the two rules of masks.
MaskShares mask_shares(const config::Job& job);

// `seen` is what the student's blocks see, in chunks of a clip's tokens.
Shares masked(const MaskShares& masks, double seen, double chunks, double fullest);

// Share of a grid of rows x columns outside `blocks` blocks of `scale` of it, on average over places and aspects.
double seen_of_frame(std::int64_t rows, std::int64_t columns, std::int64_t blocks, double scale);

// Share of a square frame that is seen while the places above and to the left are hidden, on average over a fixed set of
// draws.
double alone_in_frame(std::int64_t side, std::int64_t blocks, double scale);

// Share of a square grid outside the blocks that jepa.cut_batch masks, on average over a fixed set of draws. Each draw
// takes the minimum over `samples` samples, whose blocks have one size.
MaskShares cut_shares(std::int64_t side, std::int64_t blocks, double scale, std::int64_t samples);

}  // namespace trireme::planner
