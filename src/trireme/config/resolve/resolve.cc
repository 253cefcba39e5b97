#include "trireme/config/resolve/resolve.h"

#include <algorithm>
#include <bit>

#include "trireme/base/cpu.h"
#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/base/text.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/families.h"
#include "trireme/config/resolve/check_groups.h"
#include "trireme/config/resolve/check_network.h"
#include "trireme/config/resolve/check_offload.h"
#include "trireme/config/resolve/check_optimizer.h"
#include "trireme/config/resolve/check_precision.h"
#include "trireme/config/resolve/check_samples.h"
#include "trireme/config/resolve/check_spikes.h"
#include "trireme/config/resolve/outer_steps.h"
#include "trireme/config/resolve/resolve_family.h"
#include "trireme/config/resolve/resolve_towers.h"
#include "trireme/config/saving.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::config {
namespace {

void resolve_mesh(Parallel& parallel, int world) {
  const std::int64_t others =
      std::int64_t{parallel.pp} * parallel.dp_replicate * parallel.cp * parallel.tp;
  const bool divides = world % others == 0;
  if (parallel.dp_shard == -1 && divides) parallel.dp_shard = static_cast<int>(world / others);
  const std::string product =
      fmt::format("pp={} x dp_replicate={} x dp_shard={} x cp={} x tp={}", parallel.pp,
                  parallel.dp_replicate, parallel.dp_shard, parallel.cp, parallel.tp);
  if (parallel.dp_shard == -1)
    fail(ErrorKind::kUsage,
         "parallel: {} does not fit a world of {}: {} ranks without dp_shard do not divide it; "
         "start a "
         "multiple of {} ranks or lower a degree",
         product, world, others, others);
  const std::int64_t ranks = others * parallel.dp_shard;
  if (ranks == world) return;
  const std::string shard =
      divides ? fmt::format("set parallel.dp_shard={} (or -1: the remaining ranks)", world / others)
              : std::string("lower a degree");
  fail(ErrorKind::kUsage, "parallel: {} = {}, but the world has {}; {}, or start {}", product,
       counted(ranks, "rank"), world, shard, counted(ranks, "rank"));
}

// Keys that the schedule has no use for.
void check_schedule(const Parallel& parallel) {
  const Parallel plain;
  const auto refuse = [&](const char* key, const std::string& value, const std::string& why) {
    fail(ErrorKind::kUsage, "parallel.{}={}: {}; leave it out", key, value, why);
  };
  if (!parallel.schedule_file.empty()) {
    const std::string why = fmt::format("{} has the schedule", parallel.schedule_file);
    if (parallel.virtual_stages != plain.virtual_stages)
      refuse("virtual_stages", std::to_string(parallel.virtual_stages), why);
  }
}

// Keys that the policy needs, and those that it has no use for.
void check_recompute(const Recompute& recompute) {
  struct Key {
    const char* name;
    bool set;
    RecomputePolicy policy;
    const char* policy_name;
  };
  const Recompute plain;
  for (const Key& key :
       {Key{"parts", recompute.parts != plain.parts, RecomputePolicy::kSelective, "selective"},
        Key{"memory", recompute.memory != plain.memory, RecomputePolicy::kAuto, "auto"}}) {
    const bool wanted = recompute.policy == key.policy;
    if (key.set && !wanted)
      fail(ErrorKind::kUsage,
           "recompute.{} is of recompute.policy={}, which is not chosen; choose it or leave {} out",
           key.name, key.policy_name, key.name);
    if (wanted && !key.set && key.policy == RecomputePolicy::kAuto)
      fail(ErrorKind::kUsage, "recompute.policy={} needs recompute.{}", key.policy_name, key.name);
  }
  if (recompute.policy == RecomputePolicy::kNone && !recompute.nodes.empty())
    fail(ErrorKind::kUsage,
         "recompute.nodes={} with recompute.policy=none, which chooses nothing; choose a policy or "
         "leave nodes out",
         recompute.nodes);
}

// Of what a family's layers are made, tp ranks have a part each; that cp ranks have enough rows arch sees.
void check_towers(const Job& job) {
  const Parallel& parallel = job.parallel;
  for (const auto& [key, heads] :
       {std::pair{"model.heads", job.model.heads}, std::pair{"vision.heads", job.vision.heads}})
    if (uses(job.model.family, key) && parallel.tp > heads)
      fail(ErrorKind::kUsage,
           "parallel.tp={} is more than {}={}; a rank needs at least one: parallel.tp={} or less",
           parallel.tp, key, heads, heads);
}

// Rows in order meet in one way.
void resolve_context(Job& job) {
  Parallel& parallel = job.parallel;
  if (parallel.cp == 1 || info(job).zigzag) return;
  if (parallel.context == ContextMethod::kUlysses ||
      parallel.context == ContextMethod::kHierarchical)
    fail(ErrorKind::kUsage,
         "parallel.context={}: family {} has rows in order on cp ranks, which gather keys and "
         "values; set parallel.context=all_gather, or leave it out",
         parallel.context == ContextMethod::kUlysses ? "ulysses" : "hierarchical",
         name(job.model.family));
  parallel.context = ContextMethod::kAllGather;
}

// What tensor and context parallelism share out must be there to share.
void check_parts(const Job& job) {
  if (!info(job).chain) return check_towers(job);
  const Model& model = job.model;
  const Parallel& parallel = job.parallel;
  const auto enough = [&](const char* what, std::int64_t count) {
    if (parallel.tp > count)
      fail(ErrorKind::kUsage,
           "parallel.tp={} is more than {}={}; a rank needs at least one: parallel.tp={} or less",
           parallel.tp, what, count, count);
  };
  enough("model.heads", model.heads);
  enough("model.ffn", model.ffn);
  enough("model.vocab", model.vocab);
  if (parallel.sequence_parallel && parallel.tp > model.seq_len / parallel.cp)
    fail(ErrorKind::kUsage,
         "parallel.tp={} ranks share {} tokens of a sample (model.seq_len={} / parallel.cp={}) "
         "under "
         "sequence_parallel; lower tp or set parallel.sequence_parallel=false",
         parallel.tp, model.seq_len / parallel.cp, model.seq_len, parallel.cp);
  if (parallel.cp == 1) return;
  const std::int64_t chunks = 2 * parallel.cp;
  if (model.seq_len % chunks != 0)
    fail(ErrorKind::kUsage,
         "model.seq_len={} is not divisible by 2 x parallel.cp={}, the chunks of the zigzag; "
         "nearest "
         "that work: {}",
         model.seq_len, chunks, nearest_multiples("model.seq_len", model.seq_len, chunks));
  const bool nested = parallel.context == ContextMethod::kHierarchical;
  if (nested &&
      (parallel.cp % parallel.context_inner != 0 || parallel.cp == parallel.context_inner))
    fail(ErrorKind::kUsage,
         "parallel.context=hierarchical:{} must divide parallel.cp={} into two or "
         "more groups; with one group choose context=ulysses",
         parallel.context_inner, parallel.cp);
  const int exchanged = nested                                        ? parallel.context_inner
                        : parallel.context == ContextMethod::kUlysses ? parallel.cp
                                                                      : 1;
  if (model.heads / parallel.tp < exchanged)
    fail(ErrorKind::kUsage,
         "parallel.context={}: {} ranks exchange heads, but a rank has {} (model.heads={} / "
         "parallel.tp={}); lower {} or choose context=ring",
         nested ? "hierarchical" : "ulysses", exchanged, model.heads / parallel.tp, model.heads,
         parallel.tp, nested ? "the ranks of parallel.context=hierarchical:N" : "parallel.cp");
}

// Trained parameters, and those that checkpoints keep.
void check_training(const Job& job) {
  const Lora& lora = job.lora;
  if (lora.rank == 0 && lora != Lora{}) {
    Job plain = job;
    plain.lora = {};
    std::string more;
    for (const Difference& key : diff(plain, job))
      more += fmt::format("{}{}={}", more.empty() ? "" : ", ", key.key, key.after);
    fail(ErrorKind::kUsage,
         "lora.rank=0 means no adapters, so {} has no effect; set lora.rank, or leave lora out",
         more);
  }
  if (lora.rank > 0 && !info(job).adapters)
    fail(ErrorKind::kUsage, "lora.rank={}: family {} has no adapters; set lora.rank=0", lora.rank,
         name(job.model.family));
  if (lora.rank > 0 && lora.targets == LoraTargets::kQueryValue &&
      traits(info(job).decoder).fused_heads)
    fail(ErrorKind::kUsage,
         "lora.targets=query_value: queries, keys and values of family {} are one layer; set "
         "lora.targets=attention",
         name(job.model.family));
  check_patterns("model.frozen", job.model.frozen);
  check_patterns("lora.also", lora.also);
  // Of a product with fewer features on a side, more would say nothing more.
  const std::int64_t most = lora.targets == LoraTargets::kMlp
                                ? std::min(job.model.hidden, job.model.ffn)
                                : job.model.hidden;
  if (lora.rank > most)
    fail(ErrorKind::kUsage,
         "lora.rank={} is above {}, the rank of the largest layer that would have an adapter; "
         "set lora.rank={} or less",
         lora.rank, most, most);
  if (lora.rank > 0 && !job.model.frozen.empty())
    fail(ErrorKind::kUsage,
         "model.frozen={} with lora.rank={}: adapters freeze every unit of the model; leave "
         "model.frozen out and name units that also train in lora.also",
         job.model.frozen, lora.rank);
  if (!job.checkpoint.trainable_only) return;
  if (lora.rank == 0 && job.model.frozen.empty())
    fail(ErrorKind::kUsage,
         "checkpoint.trainable_only=true: every unit trains; leave it out, or freeze with "
         "model.frozen or lora.rank");
  if (job.model.weights.empty())
    fail(ErrorKind::kUsage,
         "checkpoint.trainable_only=true, but model.weights is empty: frozen units would be in no "
         "checkpoint; set model.weights to the checkpoint that holds them");
}

void check_retention(const Job& job) {
  const Checkpoint& checkpoint = job.checkpoint;
  const std::string also =
      fmt::format("checkpoint.keep_also=[{}, {}]", checkpoint.keep_every, checkpoint.keep_best);
  if (checkpoint.keep_last == 0 && (checkpoint.keep_every > 0 || checkpoint.keep_best > 0))
    fail(ErrorKind::kUsage,
         "{} with checkpoint.keep_last=0, which keeps all; set keep_last to the number of newest "
         "checkpoints to keep as well",
         also);
  if (checkpoint.keep_best > 0 &&
      (job.run.eval_every <= 0 || checkpoint.every % job.run.eval_every != 0))
    fail(ErrorKind::kUsage,
         "{}: the best need a validation at each checkpoint, but checkpoint.every={} is not a "
         "multiple of run.eval_every={}",
         also, checkpoint.every, job.run.eval_every);
}

void check_device(const Job& job, int world) {
  if (job.run.device == Device::kCuda && world > 1 &&
      job.precision.numerics == Numerics::kCanonical)
    fail(ErrorKind::kUsage,
         "run.device=cuda on {} ranks with precision.numerics=canonical: between GPUs NCCL chooses "
         "the order of sums; set precision.numerics=fast",
         world);
}

void resolve_optim(Optim& optim, const Run& run) {
  const bool derived = optim.decay_steps == 0;
  if (derived) optim.decay_steps = run.steps;
  // Moments are there from the first step.
  if (optim.from_weights) optim.warmup_steps = 0, optim.warmup_lr = 0;
  if (optim.min_lr > optim.lr)
    fail(ErrorKind::kUsage, "optim.min_lr={} is above optim.lr={}; lower min_lr or raise lr",
         optim.min_lr, optim.lr);
  if (optim.warmup_lr > optim.lr)
    fail(ErrorKind::kUsage,
         "optim.warmup_lr={} is above optim.lr={}; lower it: warm-up rises to lr", optim.warmup_lr,
         optim.lr);
  if (optim.warmup_lr > 0 && optim.warmup_steps == 0)
    fail(ErrorKind::kUsage,
         "optim.warmup_lr={} has no effect with optim.warmup_steps=0; set warmup_steps or leave "
         "warmup_lr out",
         optim.warmup_lr);
  // A run may end before its schedule does, but a schedule derived from the run's length must fit into it.
  if (derived && optim.warmup_steps > run.steps)
    fail(ErrorKind::kUsage,
         "optim.warmup_steps={} is more than run.steps={}; lower it or train longer",
         optim.warmup_steps, run.steps);
  if (optim.warmup_steps > optim.decay_steps)
    fail(ErrorKind::kUsage,
         "optim.warmup_steps={} is more than optim.decay_steps={}, which counts warm-up; raise "
         "decay_steps",
         optim.warmup_steps, optim.decay_steps);
  const double decaying = optim.wsd_decay_fraction * static_cast<double>(optim.decay_steps);
  if (optim.schedule == LrSchedule::kWsd &&
      static_cast<double>(optim.warmup_steps) + decaying > static_cast<double>(optim.decay_steps))
    fail(ErrorKind::kUsage,
         "optim.warmup_steps={} + {} (optim.schedule=wsd:{}) x optim.decay_steps={} = {} steps, "
         "more than decay_steps; lower one",
         optim.warmup_steps, optim.wsd_decay_fraction, optim.wsd_decay_fraction, optim.decay_steps,
         static_cast<double>(optim.warmup_steps) + decaying);
}

}  // namespace

Job resolve(Job job, int world, const DatasetFacts& data) {
  if (world < 1) fail(ErrorKind::kUsage, "a world of {} ranks; needs 1 or more", world);
  choose_compute(job);
  check_idle_keys(job);
  resolve_family(job, data);
  resolve_islands(job);
  resolve_mesh(job.parallel, world);
  resolve_context(job);
  check_parts(job);
  check_schedule(job.parallel);
  check_recompute(job.recompute);
  check_offload(job.offload);
  resolve_precision(job.precision);
  check_optimizer(job);
  check_training(job);
  check_retention(job);
  check_memory(job);
  check_spikes(job);
  check_device(job, world);
  check_batch(job);
  check_group(job);
  check_network(job);
  check_islands(job);
  if (codes_sums(job)) job.network.senders = senders(job);
  check_coupled_batch(job);
  resolve_optim(job.optim, job.run);
  check_validation(job);
  check_data_sets(job);
  if (job.run.trace > job.run.steps)
    fail(ErrorKind::kUsage,
         "run.trace={}, but the run ends after run.steps={}; time one of these steps",
         job.run.trace, job.run.steps);
  return job;
}

std::vector<std::string> notes(const Job& job) {
  std::vector<std::string> remarks;
  note_groups(job, remarks);
  const std::int64_t ids = job.run.global_batch / job.run.micro_batch;
  const bool powers = std::has_single_bit(static_cast<std::uint64_t>(ids / sum_group(job))) &&
                      std::has_single_bit(static_cast<std::uint64_t>(dp(job)));
  // docs/numerics.md, "What is promised".
  const bool any_number =
      job.parallel.zero >= 2 && job.parallel.dp_replicate == 1 && job.offload.grads == Tier::kNone;
  if (job.precision.numerics == Numerics::kCanonical && !powers && !any_number)
    remarks.push_back(fmt::format(
        "{} micro-batches a step on dp={}: equal bits on every layout need powers of two, or "
        "ZeRO-2 or 3 without replicas",
        ids, dp(job)));
  const bool narrow = size_of(job.precision.compute) < size_of(DType::kF32);
  if (job.run.device == Device::kCpu && narrow && fast_type(matrix_unit()) == DType::kF32)
    remarks.push_back(fmt::format(
        "precision.compute={} is slower than fp32 on this CPU ({}); auto takes the faster type",
        name(job.precision.compute), name(matrix_unit())));
  if (job.offload.uses(Tier::kHost) && job.run.device == Device::kCpu)
    remarks.push_back(
        "offload to host with run.device=cpu: ranks compute in host memory, so this moves bytes "
        "and saves none; nvme saves them");
  if ((job.offload.uses(Tier::kHost) || job.offload.uses(Tier::kNvme)) &&
      job.run.device == Device::kCuda)
    remarks.push_back(
        "offload with run.device=cuda: copies between device and host are synchronous and from "
        "pageable memory so far, so they do not overlap with computing");
  for (std::string& note : network_notes(job)) remarks.push_back(std::move(note));
  const Parallel& parallel = job.parallel;
  if (parallel.tp > 1 && parallel.sequence_parallel && !info(job).sequence_parallel)
    remarks.push_back(fmt::format(
        "parallel.sequence_parallel: family {} has all rows on every tp rank between layers",
        name(job.model.family)));
  if (parallel.cp > 1 && !info(job).zigzag)
    remarks.push_back(
        fmt::format("parallel.cp={}: ranks share the rows of family {}'s blocks in order and "
                    "attend with context=all_gather",
                    parallel.cp, name(job.model.family)));
  if (parallel.zero > 0 && parallel.dp_shard * parallel.cp == 1 && parallel.dp_replicate > 1)
    remarks.push_back(fmt::format(
        "parallel.zero={} shards over dp_shard=1, so every rank holds everything", parallel.zero));
  if (!info(job).chain) return remarks;
  // Query heads of one group on several ranks.
  const std::int64_t group = job.model.heads / job.model.kv_heads;
  bool shared = false;
  for (int rank = 0; rank < parallel.tp; ++rank)
    shared = shared || job.model.heads * rank / parallel.tp % group != 0;
  if (shared)
    remarks.push_back(
        fmt::format("model.kv_heads={} on parallel.tp={}: several ranks keep a copy of the same "
                    "key-value heads and add their gradients over tp",
                    job.model.kv_heads, parallel.tp));
  return remarks;
}

int dp(const Job& job) { return job.parallel.dp_replicate * job.parallel.dp_shard; }

std::int64_t accumulation(const Job& job) {
  return job.run.global_batch / (job.run.micro_batch * dp(job));
}

}  // namespace trireme::config
