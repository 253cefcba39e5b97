// The memory of a run's ranks as it was forecast and as it was measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trireme/train/callbacks.h"

namespace trireme::train {

struct RankMemory {
  int rank = 0;
  std::int64_t predicted = 0;
  std::int64_t measured = 0;
  double ratio() const { return static_cast<double>(measured) / static_cast<double>(predicted); }
};

// The `most` measured ranks whose measurement is furthest above the forecast or, if all are below, least below it; by
// rank.
std::vector<RankMemory> shown_ranks(const RunInfo& info, const RunEnd& end, std::size_t most = 8);

}  // namespace trireme::train
