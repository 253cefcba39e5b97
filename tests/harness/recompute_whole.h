// Programs of which all that can runs again.
#pragma once

#include <utility>

#include "trireme/plan/compile/recompute.h"

namespace trireme::plan {

// In segments of `every` nodes.
inline Program recompute_whole(Program program, int every = 1) {
  recompute_each(program, recomputable(program));
  join_segments(program, every);
  return program;
}

}  // namespace trireme::plan
