// Batches, learning rates and steps of a run.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/held_out.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {
namespace {

// The largest micro-batch up to the job's, of whole samples, with which the global batch works.
std::string smaller_micro_batch(const Job& job) {
  const Run& run = job.run;
  const std::int64_t views = job.probe.views, all = run.global_batch / dp(job);
  if (run.global_batch % (dp(job) * views) != 0) return "";
  std::int64_t rows = std::min(run.micro_batch, all) / views * views;
  while (rows > 0 && all % rows != 0) rows -= views;
  return rows > 0 ? fmt::format("; or, with this batch, run.micro_batch={}", rows) : "";
}

void check_sum_group(const Job& job) {
  const std::int64_t group = job.precision.group, count = accumulation(job);
  if (group == 0 || count % group == 0) return;
  const std::int64_t all = count * dp(job);
  fail(ErrorKind::kUsage,
       "precision.group={}: a rank has {} of {} micro-batches, no multiple of it; set{} "
       "precision.group={}, which has other bits",
       group, count, all,
       all % group == 0
           ? fmt::format(" a number of data-parallel ranks that divides {}, or", all / group)
           : "",
       std::gcd(group, count));
}

void resolve_schedule(Job& job, const Given&) {
  Optim& optim = job.optim;
  if (optim.decay_steps == 0) optim.decay_steps = job.run.steps;
  // Moments are there from the first step.
  if (optim.from_weights) optim.warmup_steps = 0, optim.warmup_lr = 0;
}

}  // namespace

std::vector<Rule> batch_rules() {
  const Number at_once(
      "{run.micro_batch} x {parallel.dp_replicate} x {parallel.dp_shard} = {}",
      [](const Job& job) { return static_cast<double>(job.run.micro_batch * dp(job)); });
  return {
      {"gpu-sums",
       needs("run.device=cuda", {"precision.numerics=fast"},
             "between GPUs NCCL chooses the order of sums"),
       [](const Job& job) {
         return dp(job) * job.parallel.cp * job.parallel.tp * job.parallel.pp > 1;
       }},
      {"batch", multiple_of("run.global_batch", at_once, "", smaller_micro_batch)},
      {"fast-group", only_with("precision.group", "precision.numerics=canonical")},
      {"sum-group", check_sum_group},
  };
}

std::vector<Rule> run_rules() {
  const Number decayed("{optim.warmup_steps} + {optim.schedule} x {optim.decay_steps} = {}",
                       [](const Job& job) {
                         const Optim& optim = job.optim;
                         return static_cast<double>(optim.warmup_steps) +
                                optim.wsd_decay_fraction * static_cast<double>(optim.decay_steps);
                       });
  return {
      {"coupled-batch", check_coupled_batch},
      {.id = "schedule", .fill = resolve_schedule},
      {"min-lr", at_most("optim.min_lr", "optim.lr", "schedules fall to min_lr", "raise optim.lr")},
      {"warmup-lr", at_most("optim.warmup_lr", "optim.lr", "warm-up rises to lr")},
      {"warmup-lr-steps", refused("optim.warmup_lr with optim.warmup_steps=0", "it has no effect",
                                  "set optim.warmup_steps, or leave it out")},
      {"warmup-run",
       at_most("optim.warmup_steps", "run.steps", "the schedule ends with the run", "train longer"),
       [](const Job& job) { return job.optim.decay_steps == job.run.steps; }},
      {"warmup-decay",
       at_most("optim.warmup_steps", "optim.decay_steps", "decay_steps count the warm-up")},
      {"wsd-decay",
       at_most(decayed, "optim.decay_steps", "the decay follows the warm-up",
               "lower optim.warmup_steps or the share of optim.schedule=wsd:SHARE"),
       [](const Job& job) { return job.optim.schedule == LrSchedule::kWsd; }},
      {"validation",
       refused("data.validation", "a fraction is at most 0.5, and a number of samples is whole",
               "set data.validation=0.1 or data.validation=500, for example"),
       [](const Job& job) {
         const double held_out = job.data.validation;
         return is_count(held_out) ? held_out != std::floor(held_out) : held_out > 0.5;
       }},
      {"validation-samples",
       refused("run.eval_every with data.validation=0", "validation needs held-out samples",
               "set data.validation=0.1 or run.eval_every=0"),
       [](const Job& job) { return job.run.eval_every > 0; }},
      // Tiles and regions have a rule of their own, other samples are made in their size.
      {"antialias",
       refused("data.antialias", "{model.family} with {data.source} resizes no picture or clip"),
       [](const Job& job) {
         return files_of(job.data.source).empty() || info(job).pictures != Pictures::kResized;
       }},
      {"weights-source",
       refused("data.weights", "{data.source} reads one data set",
               "leave it out, or set data.source to images, pairs, clips or trajectories"),
       [](const Job& job) { return files_of(job.data.source).empty(); }},
      {"weights-pack",
       refused("data.weights with vlm.pack", "samples are packed by their length, not by weights",
               "leave one of them out")},
      {"data-sets", [](const Job& job) { data_sets(job.data); }},
      {"trace", at_most("run.trace", "run.steps", "it is one of the steps")},
  };
}

}  // namespace trireme::config
