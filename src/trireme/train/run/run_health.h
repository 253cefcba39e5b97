// RunHealth: what a run does about numbers and memory that have gone bad.
#pragma once

#include <cstdint>

#include "trireme/train/callbacks.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/run_checkpoints.h"
#include "trireme/train/watch/stragglers.h"

namespace trireme::train {

// Of one rank; what is found is told to the callbacks. Every call is collective, and ends alike on every rank.
class RunHealth {
 public:
  // All of them outlive it. Throws Error{kUsage} where replicas are to be compared and there are none.
  RunHealth(const config::Job& job, JobSession& steps, RunCheckpoints& checkpoints,
            comm::World& world, const Callbacks& callbacks);

  // Of the step-th step (from 1), which took `seconds`. One that was not finite has changed nothing and is passed
  // over, traced to where it began; as many in a row as the job allows throw Error{kNonFinite}.
  void check_finite(std::int64_t step, const exec::StepResult& result, const JobSession::Load& load,
                    double seconds);

  // Ranks that compute for longer than others with the same work are told of.
  void check_stragglers(std::int64_t step, const exec::StepResult& result);

  // Of the step-th step: where a spike of the loss begins with it, training goes back. Returns the steps done, fewer
  // then; the same where there is no checkpoint to go back to, which is told. Throws Error{kNonFinite} where it went
  // back as often as the job allows.
  std::int64_t rewind_spike(std::int64_t step);

  // Whether what several ranks hold alike is to be compared after this step, which may be about to be saved.
  bool compares(std::int64_t step, bool saving) const;
  // Throws Error{kPeerLost} where they differ.
  void compare(std::int64_t step);

 private:
  void tell_fault(const formats::Event& fault) const;

  const config::Job& job_;
  JobSession& steps_;
  RunCheckpoints& checkpoints_;
  comm::World& world_;
  const Callbacks& callbacks_;
  Stragglers stragglers_;
};

}  // namespace trireme::train
