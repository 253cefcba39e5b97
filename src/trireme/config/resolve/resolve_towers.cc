#include "trireme/config/resolve/resolve_towers.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {

bool has_position_table(const Vision& vision) {
  return vision.positions == Positions::kLearned || vision.positions == Positions::kLearnedRotary;
}

bool couples_batch(const Job& job) {
  const auto couples = info(job).couples_batch;
  return couples != nullptr && couples(job);
}

bool caches_gradients(const Job& job) {
  return couples_batch(job) && job.run.micro_batch * dp(job) < job.run.global_batch;
}

std::int64_t samples_of_loss(const Job& job) {
  return caches_gradients(job) ? job.run.global_batch / dp(job) : job.run.micro_batch;
}

namespace {

bool forwards_first(const Parallel& parallel) {
  return schedules::info(schedules::schedule_of(parallel.schedule).value()).forwards_first;
}

}  // namespace

void check_coupled_batch(const Job& job) {
  if (!caches_gradients(job) || !job.parallel.schedule_file.empty() || forwards_first(job.parallel))
    return;
  const Run& run = job.run;
  const std::int64_t seen = run.micro_batch * dp(job);
  fail(ErrorKind::kUsage,
       "run.global_batch={}, but run.micro_batch={} x dp={} (dp_replicate={} x dp_shard={}) = {}. "
       "{} the whole global batch of {} micro-batches a rank, but parallel.schedule={} has "
       "backwards before the last forward. Set parallel.schedule={}, run.micro_batch={} or "
       "run.global_batch={}",
       run.global_batch, run.micro_batch, dp(job), job.parallel.dp_replicate, job.parallel.dp_shard,
       seen, info(job).couples, accumulation(job), job.parallel.schedule,
       schedules::names_where(
           [](const schedules::ScheduleInfo& other) { return other.forwards_first; }),
       std::max<std::int64_t>(1, run.global_batch / dp(job)), seen);
}

}  // namespace trireme::config
