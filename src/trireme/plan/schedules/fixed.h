// Schedules whose order follows from counts alone. One rank's row each; counts are checked before.
#pragma once

#include <vector>

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

// Huang et al. 2019: all forwards, then all backwards. Micro-batches ascend in both.
Row gpipe_row(int ranks, int micro_batches, int rank);

// Narayanan et al. 2019: as many forwards ahead as there are ranks from here on, then one backward each.
Row one_f_one_b_row(int ranks, int micro_batches, int rank);

// Narayanan et al. 2021, in Megatron-LM's order. Forwards pass in groups of `ranks` micro-batches through one chunk
// after the other, backwards through the chunks in reverse. The number of micro-batches is a multiple of ranks.
Row interleaved_row(int ranks, int chunks, int micro_batches, int rank);

// Qi et al. 2023, figure 2 and 3: 1F1B with delayed W. The delay in micro-batches is the first rank's number of
// forwards ahead minus the rank's own, so that all ranks hold `ranks` (H1) or 2 ranks - 1 (H2).
Row zb_h1_row(int ranks, int micro_batches, int rank);
Row zb_h2_row(int ranks, int micro_batches, int rank);

// DeepSeek's DualPipe (2024) cut in half, with V placement: a pair of forward and backward that their
// execution overlaps is two actions here. At least 2 ranks micro-batches.
Row dualpipe_v_row(int ranks, int micro_batches, int rank);

}  // namespace trireme::schedules
