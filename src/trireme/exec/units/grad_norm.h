// Global sums that decide a step: the loss and the squared gradient norm, in one canonical order.
#pragma once

#include <vector>

#include "trireme/exec/busy.h"
#include "trireme/exec/groups.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/plan.h"

namespace trireme::exec {

// Results of loss nodes for a micro-batch, or for a batch.
struct MicroBatchSums {
  double loss = 0;
  std::vector<Counts::Count> counts{};
};

// A rank's report about itself.
struct RankReport {
  bool flag = false;
  double flops = 0;
  Busy busy{};
};

struct GlobalSums {
  MicroBatchSums batch;  // over all micro-batches of the global batch, as one balanced tree
  double square_sum =
      0;  // over all trainable parameters: chunk by chunk in unit order; the island's
  double largest_square_sum = 0;  // of all islands; NaN if any is
  bool flag = false;              // whether any rank raised its flag
  double flops = 0;               // of all ranks
  std::vector<Busy> busy;         // by rank
};

// Collective over the world; every rank gets the same bits under any data-parallel layout. `own` holds the sums of this
// rank's micro-batches, with equally many counts.
GlobalSums exchange_sums(const plan::PlanSet& plan, int rank, Units& units, const Groups& groups,
                         const std::vector<MicroBatchSums>& own, const RankReport& report);

// The factor that brings a gradient of norm `norm` down to `clip`: clip / (norm + 1e-6) where norm is
// larger, else 1; `clip` 0 is off. (Pascanu et al. 2013, with the epsilon users know from PyTorch.)
double clip_scale(double norm, double clip);

}  // namespace trireme::exec
