// Additional memory of a loss that runs once a step, on all micro-batches of its rank.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/graph.h"

namespace trireme::model {

// Bytes of these values of all micro-batches of a rank, concatenated for the loss of a resolved job; 0 where it reads
// one micro-batch as it is.
std::int64_t joined_bytes(const Graph& graph, const config::Job& job,
                          const std::vector<plan::ValueId>& reads);

}  // namespace trireme::model
