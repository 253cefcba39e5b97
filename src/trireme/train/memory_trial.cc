#include "trireme/train/memory_trial.h"

#include "trireme/data/random_tokens.h"
#include "trireme/plan/memory.h"
#include "trireme/train/job_session.h"

namespace trireme::train {

MemoryTrial try_memory(const config::Job& job, comm::World& world, TensorMemory* tensors, int steps,
                       const Path& scratch) {
  JobSession session(job, world, scratch);
  MemoryMeter meter(tensors, session.device());
  for (int step = 0; step < steps; ++step) {
    meter.begin_step();
    session.train(step, false, [&](std::int64_t first_sample) {
      return data::random_tokens(first_sample, job.run.micro_batch, job.model.seq_len,
                                 job.model.vocab, job.data.documents);
    });
    meter.end_step();
  }
  return {
      .forecast = plan::memory_account(session.session().plan(), world.rank()).peak_of_tensors(),
      .measured = meter.peaks()};
}

}  // namespace trireme::train
