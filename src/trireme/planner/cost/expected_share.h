// Expected shares: expected number of rows of a node, as a share of the maximum.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::planner {

// Shares of a clip's tokens: seen by the student, and guessed by the predictor.
struct MaskShares {
  double seen = 0;
  double hidden = 0;
};

// For rows that vary, memory is counted for the maximum and time for the expected number. Masks: the tokens of a frame
// outside their blocks. Chunks: one of `ratio`, and all tokens whose neighbours before them are hidden. Tiles: the mean
// over all grids, unless samples are packed into rows. Regions: their budget. Shares belong to a node of a resolved job
// and are 1 where nothing varies.
class ExpectedShare {
 public:
  explicit ExpectedShare(const config::Job& job);
  double of(std::string_view node) const;
  // Whether any node has fewer rows than the most.
  bool varies() const;
  // Operations of the node that arch counts are of the expected rows already.
  bool counted() const { return family_ == config::Family::kHnet; }

 private:
  double masked(std::string_view node) const;
  double staged(std::string_view node) const;

  config::Family family_;
  MaskShares masks_{.seen = 1, .hidden = 0};
  double chunks_ = 1;       // of tokens, in a tower of clips
  double seen_chunks_ = 1;  // of the student, as a share of a clip's tokens
  double tower_ = 1;        // of tiles or of regions' tokens
  std::vector<double> stages_;
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
