#include "trireme/train/run/memory_trial.h"

#include "trireme/plan/memory.h"
#include "trireme/planner/cost/expected_memory.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/samples.h"

namespace trireme::train {

MemoryTrial try_memory(const config::Job& job, comm::World& world, TensorMemory* tensors, int steps,
                       const Path& scratch) {
  JobSession session(job, world, scratch);
  const JobSession::Load load = load_of(job, job.run.micro_batch);
  MemoryMeter meter(tensors, session.device());
  for (int step = 0; step < steps; ++step) {
    meter.begin_step();
    session.train(step, false, load);
    meter.end_step();
  }
  return {
      .forecast = plan::memory_account(session.session().plan(), world.rank()).peak_of_tensors() +
                  planner::samples_ahead(session.session().plan(), job, world.rank()),
      .measured = meter.peaks()};
}

}  // namespace trireme::train
