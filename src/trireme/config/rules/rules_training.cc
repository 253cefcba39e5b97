// Trained parameters, and the checkpoints that keep them.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/families.h"
#include "trireme/config/rules/rule_lists.h"
#include "trireme/config/rules/templates.h"
#include "trireme/config/saving.h"

namespace trireme::config {
namespace {

void check_unit_patterns(const Job& job) {
  check_patterns("model.frozen", job.model.frozen);
  check_patterns("lora.also", job.lora.also);
}

bool finds_spikes(const Job& job) { return job.run.spike_zscore > 0; }

void check_reach(const Job& job) {
  const Checkpoint& checkpoint = job.checkpoint;
  if (checkpoint.keep_last == 0 || checkpoint.keep_every > 0) return;
  // Right after one is written the oldest is closest.
  const std::int64_t apart = std::max<std::int64_t>(checkpoint.keep_last, 2) - 1;
  const std::int64_t reach = apart * checkpoint.every + 1, window = job.run.spike_window;
  if (reach < window)
    fail(ErrorKind::kUsage,
         "run.spikes=[{}, {}] with checkpoint.keep_last={} x checkpoint.every={}: the oldest "
         "checkpoint may be only {} steps before a spike; set checkpoint.keep_last={} or more, or "
         "a smaller window",
         job.run.spike_zscore, window, checkpoint.keep_last, checkpoint.every, reach,
         (window - 2) / checkpoint.every + 2);
}

Number widest_rank() {
  return Number("{}, the rank of the largest layer with an adapter", [](const Job& job) {
    const Model& model = job.model;
    return job.lora.targets == LoraTargets::kMlp ? std::min(model.hidden, model.ffn) : model.hidden;
  });
}

}  // namespace

std::vector<Rule> training_rules() {
  return {
      {"lora-off", refused("lora.* with lora.rank=0", "rank 0 means no adapters",
                           "set lora.rank, or leave it out")},
      {"lora-family", refused("lora.rank", "{model.family} has no adapters"),
       [](const Job& job) { return !info(job).adapters; }},
      {"lora-fused",
       refused("lora.targets=query_value",
               "queries, keys and values of {model.family} are one layer",
               "set lora.targets=attention"),
       [](const Job& job) { return info(job).decoder && info(job).decoder->fused_heads; }},
      {"patterns", check_unit_patterns},
      {"lora-rank", at_most("lora.rank", widest_rank(), "its adapter could not use more")},
      {"lora-frozen",
       refused("model.frozen with lora.rank", "adapters freeze every unit of the model",
               "leave model.frozen out, and name units that also train in lora.also")},
      {"base-tp", refused("lora.base with parallel.tp",
                          "the scale of a row or block belongs to the whole matrix",
                          "set parallel.tp=1 and use dp, cp or pp")},
      {"base-dora",
       refused("lora.base with lora.dora=true", "magnitudes need the norms of unquantised rows",
               "set lora.dora=false or lora.base=full")},
      {"base-saved", needs("lora.base", {"checkpoint.trainable_only=true"},
                           "checkpoints do not hold quantised weights")},
      {"trainable-all",
       refused("checkpoint.trainable_only with lora.rank=0 with model.frozen=", "every unit trains",
               "leave it out, or freeze with model.frozen or lora.rank")},
      {"trainable-weights", refused("checkpoint.trainable_only with model.weights=",
                                    "frozen units would be in no checkpoint",
                                    "set model.weights to the checkpoint that holds them")},
      {"keep-all",
       refused("checkpoint.keep_also with checkpoint.keep_last=0", "all are kept anyway",
               "set keep_last to the number of newest checkpoints to keep as well")},
      {"keep-best",
       refused("checkpoint.keep_also",
               "the best need a validation at each checkpoint, but {checkpoint.every} is not a "
               "multiple of {run.eval_every}",
               "set run.eval_every to a divisor of checkpoint.every"),
       [](const Job& job) {
         const std::int64_t every = job.run.eval_every;
         return job.checkpoint.keep_best > 0 && (every <= 0 || job.checkpoint.every % every != 0);
       }},
      {"memory-snapshots",
       refused("checkpoint.memory_every",
               "states and parameters that are offloaded to nvme do not fit in memory",
               "set memory_every=0"),
       waits_on_disk},
      {"spikes-off",
       refused("run.spikes", "the window has no effect without a z-score",
               "set one, as in run.spikes=[10, 100], or leave it out"),
       [](const Job& job) { return !finds_spikes(job); }},
      {"spike-window", refused("run.spikes", "the window is out of range", "needs 8 to 10000"),
       [](const Job& job) { return job.run.spike_window < 8 || job.run.spike_window > 10000; }},
      {"spike-checkpoints",
       refused("run.spikes with checkpoint.every=0", "there would be no checkpoint to rewind to",
               "set checkpoint.every, or leave spikes out")},
      {"spike-reach", check_reach, finds_spikes},
  };
}

}  // namespace trireme::config
