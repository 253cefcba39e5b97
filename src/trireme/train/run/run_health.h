// RunHealth: what a run does about numbers and memory that have gone bad.
#pragma once

#include <cstdint>

#include "trireme/train/callbacks.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/run_checkpoints.h"
#include "trireme/train/watch/stragglers.h"

namespace trireme::train {

// Belongs to one rank; findings are reported to the callbacks. Every function is collective, and ends with the same
// result on every rank.
class RunHealth {
 public:
  // All of them outlive it. Throws Error{kUsage} if replicas are to be compared and there are none.
  RunHealth(const config::Job& job, JobSession& steps, RunCheckpoints& checkpoints,
            comm::World& world, const Callbacks& callbacks);

  // Checks step `step` (from 1), which took `seconds`. A step that was not finite has changed nothing. It is skipped
  // and traced to its origin; more in a row than the job allows throw Error{kNonFinite}.
  void check_finite(std::int64_t step, const exec::StepResult& result, const JobSession::Load& load,
                    double seconds);

  // Reports ranks that compute for longer than others with the same work.
  void check_stragglers(std::int64_t step, const exec::StepResult& result);

  // If a spike of the loss begins with step `step`, training returns to a checkpoint. Returns the steps done, fewer
  // after such a return; unchanged without a usable checkpoint, which is reported. Throws Error{kNonFinite} after as
  // many returns as the job allows.
  std::int64_t rewind_spike(std::int64_t step);

  // Whether replicated state is to be compared after this step, which may be about to be saved.
  bool compares(std::int64_t step, bool saving) const;
  // Throws Error{kPeerLost} where they differ.
  void compare(std::int64_t step);

 private:
  void report_fault(const formats::Event& fault) const;

  const config::Job& job_;
  JobSession& job_session_;
  RunCheckpoints& checkpoints_;
  comm::World& world_;
  const Callbacks& callbacks_;
  Stragglers stragglers_;
};

}  // namespace trireme::train
