// Expected memory: what a plan needs where rows that vary come to what is expected of them, and samples that wait for it.
#pragma once

#include <cstdint>

#include "trireme/config/job.h"
#include "trireme/plan/plan.h"

namespace trireme::planner {

// The plan of a resolved job with values, kept activations and work of the expected size (ExpectedShare) instead of the
// largest. Its lists are the same. Only plan::memory_account may read it.
plan::PlanSet with_expected_rows(plan::PlanSet plan, const config::Job& job);

// The same for the fullest micro-batch of a run, which has up to 1.2 times the expected rows.
plan::PlanSet with_fullest_rows(plan::PlanSet plan, const config::Job& job);

// Bytes of samples that wait in the memory of a rank during a step: the next step's micro-batches, and the two samples
// that threads are reading (data/loaders/read_ahead). 0 where a job reads no files of samples, and on stages without
// inputs.
std::int64_t samples_ahead(const plan::PlanSet& plan, const config::Job& job, int rank);

// Bytes of host memory to which a rank's state is copied before checkpoints or snapshots in memory are written.
std::int64_t snapshot_bytes(const plan::PlanSet& plan, const config::Job& job, int rank);

}  // namespace trireme::planner
