// Expected shares: of the most rows that a node may have, what it is expected to have.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/config/job.h"

namespace trireme::planner {

// Of a clip's tokens, by the student seen and for the predictor to guess.
struct MaskShares {
  double seen = 0;
  double hidden = 0;
};

// Rows that vary from micro-batch to micro-batch are described as the most there can be, which memory is counted by;
// time is priced by what is expected: of masks what their blocks leave of a frame, of chunks one of `ratio`, of tiles as if
// all grids were as likely, unless rows are filled with samples, of regions their budget. Of a node of a resolved job; 1 where nothing varies.
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
  double chunks_ = 1;  // of tokens, in a tower of clips
  double tower_ = 1;   // of tiles or of regions' tokens
  std::vector<double> stages_;
};

// Of a grid of rows x columns, what `blocks` places of a block of `scale` of it leave, on average over places and aspects.
double seen_of_frame(std::int64_t rows, std::int64_t columns, std::int64_t blocks, double scale);

// Of a square grid, what jepa.cut_batch leaves of masks of such blocks, on average over a fixed set of draws: the least of
// `samples` samples whose blocks have one size.
MaskShares cut_shares(std::int64_t side, std::int64_t blocks, double scale, std::int64_t samples);

}  // namespace trireme::planner
