// Rows of frozen towers that make chunks.
#pragma once

#include "trireme/config/job.h"
#include "trireme/planner/cost/expected_share.h"

namespace trireme::planner {

// One chunk of chunk.ratio tokens after the embedding, where vision.chunked.
Shares frozen_tower_shares(const config::Job& job);

}  // namespace trireme::planner
