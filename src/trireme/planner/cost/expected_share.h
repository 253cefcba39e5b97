// Expected shares: expected number of rows of a node, as a share of the maximum.
#pragma once

#include <algorithm>
#include <functional>
#include <string_view>

#include "trireme/config/job.h"

namespace trireme::planner {

// Shares of a clip's tokens: seen by the student, and guessed by the predictor.
struct MaskShares {
  double seen = 0;
  double hidden = 0;
};

// What a family expects of the rows of its nodes.
struct Shares {
  std::function<double(std::string_view node)> of;  // null: 1
  bool varies = false;                              // any node has fewer rows than the most
  bool counted = false;  // operations that the program counts are of the expected rows already
  double fullest = 1.2;  // rows of a run's fullest micro-batch, as a multiple of the expected ones
};

// Masks: the tokens of a frame outside their blocks. Chunks: one of `ratio`, and all tokens whose neighbours before them
// are hidden. Tiles: the mean over all grids, unless samples are packed into rows. Regions: their budget. Stages: one
// chunk of a stage's ratio.
Shares masked_shares(const config::Job& job);
Shares masked_chunk_shares(const config::Job& job);
Shares tile_shares(const config::Job& job);
Shares region_shares(const config::Job& job);
Shares stage_shares(const config::Job& job);

// For rows that vary, memory is counted for the maximum and time for the expected number. Shares belong to a node of a
// resolved job and are 1 where nothing varies.
class ExpectedShare {
 public:
  explicit ExpectedShare(const config::Job& job);
  double of(std::string_view node) const;
  // Whether any node has fewer rows than the most.
  bool varies() const { return chunks_ < 1 || shares_.varies; }
  // Share of the node in the fullest micro-batch of a run (docs/results/forecasts.md).
  double fullest(std::string_view node) const { return std::min(shares_.fullest * of(node), 1.0); }
  // Operations of the node that arch counts are of the expected rows already.
  bool counted() const { return shares_.counted; }

 private:
  Shares shares_;
  double chunks_ = 1;  // of tokens, in a frozen tower of clips
};

// Share of a grid of rows x columns outside `blocks` blocks of `scale` of it, on average over places and aspects.
double seen_of_frame(std::int64_t rows, std::int64_t columns, std::int64_t blocks, double scale);

// Share of a square frame that is seen while the places above and to the left are hidden, on average over a fixed set of
// draws.
double alone_in_frame(std::int64_t side, std::int64_t blocks, double scale);

// Share of a square grid outside the blocks that jepa.cut_batch masks, on average over a fixed set of draws. Each draw
// takes the minimum over `samples` samples, whose blocks have one size.
MaskShares cut_shares(std::int64_t side, std::int64_t blocks, double scale, std::int64_t samples);

}  // namespace trireme::planner
