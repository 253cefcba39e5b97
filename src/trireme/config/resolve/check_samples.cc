#include "trireme/config/resolve/check_samples.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/base/held_out.h"
#include "trireme/config/resolve/resolve_family.h"

namespace trireme::config {
namespace {

// The largest micro-batch up to the job's, of whole samples of `views` rows, with which the global batch works; 0: none.
std::int64_t smaller_micro_batch(const Run& run, std::int64_t dp, std::int64_t views) {
  if (run.global_batch % (dp * views) != 0) return 0;
  const std::int64_t all = run.global_batch / dp;
  std::int64_t rows = std::min(run.micro_batch, all) / views * views;
  while (all % rows != 0) rows -= views;
  return rows;
}

}  // namespace

void check_batch(const Job& job) {
  const Run& run = job.run;
  const std::int64_t at_once = run.micro_batch * dp(job);
  if (run.global_batch % at_once == 0) return;
  const std::int64_t smaller = smaller_micro_batch(run, dp(job), job.probe.views);
  fail(ErrorKind::kUsage,
       "run.global_batch={} is not divisible by run.micro_batch={} x dp={} (dp_replicate={} x "
       "dp_shard={}) "
       "= {}; nearest that work: {}{}",
       run.global_batch, run.micro_batch, dp(job), job.parallel.dp_replicate, job.parallel.dp_shard,
       at_once, nearest_multiples("run.global_batch", run.global_batch, at_once),
       smaller > 0 ? fmt::format("; or, with this batch, run.micro_batch={}", smaller) : "");
}

void check_validation(const Job& job) {
  const double held_out = job.data.validation;
  if ((held_out > 0.5 && !is_count(held_out)) ||
      (is_count(held_out) && held_out != std::floor(held_out)))
    fail(ErrorKind::kUsage,
         "data.validation={}: a fraction is at most 0.5, and a number of samples is whole; set "
         "data.validation=0.1 or data.validation=500, for example",
         held_out);
  if (job.run.eval_every > 0 && held_out == 0)
    fail(ErrorKind::kUsage,
         "run.eval_every={} needs held-out text, but data.validation=0; set data.validation=0.1 or "
         "run.eval_every=0",
         job.run.eval_every);
}

}  // namespace trireme::config
