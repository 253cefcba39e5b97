// Rows of towers of pictures.
#pragma once

#include "trireme/planner/cost/expected_share.h"

namespace trireme::planner {

// Of a tower of pictures and the projector after it.
Shares tower_shares(double share, double fullest);

}  // namespace trireme::planner
