// Grids as the CSV of PyTorch's pipelining: a row for each rank, a cell for each action. "2F0" is the forward of stage
// 2 (in the order of the model) on micro-batch 0; an empty cell is idle.
#pragma once

#include <string>
#include <string_view>

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

// Compute actions alone, each as one cell; a column is a moment, if every action takes equally long.
std::string compute_csv(const Grid& grid);

// The lowered form of PyTorch. "0UNSHARD" comes before a stage's use (at most `active_stages` of a rank are unsharded),
// "0RESHARD" after it, and "0REDUCE_GRAD" after its last backward. "0SEND_F0", "1RECV_F0", "1SEND_B0" and "0RECV_B0"
// are between stages on different ranks, with sends and receives of two ranks in the same order. No idle cells.
std::string lowered_csv(const Grid& grid, int active_stages = 3);

// Reads both kinds. Communication must be well-formed and of the row's stages and is then left out; a pair
// "(0F1;1B0)OVERLAP_F_B" is its two actions. Ranks, chunks, placement and micro-batches follow from the
// cells; on one rank, where both placements are one, it is kLoop. Throws Error{kData} with row, column and reason,
// also for what find_fault finds.
Grid read_csv(std::string_view text);

}  // namespace trireme::schedules
