#include "trireme/config/resolve.h"

#include <algorithm>
#include <bit>

#include "trireme/base/error.h"

namespace trireme::config {
namespace {

// floor(8/3 hidden) rounded up to a multiple of 256 (the reference code of Llama).
std::int64_t swiglu_width(std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t two_thirds = 2 * (4 * hidden) / 3;
  return (two_thirds + kMultiple - 1) / kMultiple * kMultiple;
}

// The divisor of `whole` that is nearest to `wanted`.
std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wanted) {
  for (std::int64_t apart = 0; apart < whole; ++apart) {
    if (wanted - apart > 0 && whole % (wanted - apart) == 0) return wanted - apart;
    if (wanted + apart <= whole && whole % (wanted + apart) == 0) return wanted + apart;
  }
  return whole;
}

// "KEY=24 or KEY=32" for the multiples of `step` around a value that is none.
std::string nearest_multiples(std::string_view key, std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  const std::string lower = below > 0 ? fmt::format("{}={} or ", key, below) : "";
  return fmt::format("{}{}={}", lower, key, below + step);
}

void resolve_model(Model& model, const DatasetFacts& data) {
  if (model.hidden % model.heads != 0)
    fail(ErrorKind::kUsage,
         "model.hidden={} is not divisible by model.heads={}; nearest that work: model.heads={}, "
         "or {}",
         model.hidden, model.heads, nearest_divisor(model.hidden, model.heads),
         nearest_multiples("model.hidden", model.hidden, model.heads));
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.heads % model.kv_heads != 0)
    fail(ErrorKind::kUsage,
         "model.heads={} is not divisible by model.kv_heads={}; nearest that works: {}",
         model.heads, model.kv_heads, nearest_divisor(model.heads, model.kv_heads));
  if (model.vocab == 0) model.vocab = data.vocab;
  if (model.vocab == 0)
    fail(ErrorKind::kUsage,
         "model.vocab=0 means the dataset's vocabulary, which is not known here; set model.vocab");
  if (model.vocab < data.vocab)
    fail(ErrorKind::kUsage,
         "model.vocab={} is smaller than the dataset's vocabulary of {}; set model.vocab={} (or 0)",
         model.vocab, data.vocab, data.vocab);

  const bool llama = model.family == Family::kLlama;
  if (model.ffn == 0) model.ffn = llama ? swiglu_width(model.hidden) : 4 * model.hidden;
  if (llama && model.hidden / model.heads % 2 != 0)
    fail(ErrorKind::kUsage,
         "model.hidden={} / model.heads={} = {} per head is odd; llama rotates pairs and needs an "
         "even one",
         model.hidden, model.heads, model.hidden / model.heads);
  if (llama && model.dropout != 0)
    fail(ErrorKind::kUsage, "model.dropout={}: family llama has no dropout; needs 0",
         model.dropout);
  if (!llama && model.kv_heads != model.heads)
    fail(ErrorKind::kUsage,
         "model.kv_heads={}: family gpt has one key-value head per head; needs {} (or 0)",
         model.kv_heads, model.heads);
  if (!llama && model.rope_theta != Model{}.rope_theta)
    fail(ErrorKind::kUsage, "model.rope_theta={}: family gpt has no rotary positions; leave it out",
         model.rope_theta);
}

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
      divides ? fmt::format("set parallel.dp_shard={} (or -1: what is left)", world / others)
              : std::string("lower a degree");
  fail(ErrorKind::kUsage, "parallel: {} = {} ranks, but the world has {}; {}, or start {} ranks",
       product, ranks, world, shard, ranks);
}

void resolve_precision(Precision& precision) {
  const DType wide = precision.compute == DType::kF64 ? DType::kF64 : DType::kF32;
  const auto settle = [&](const char* key, std::optional<DType>& type) {
    if (!type) type = wide;
    if (*type != wide)
      fail(ErrorKind::kUsage, "precision.{}={} with precision.compute={}: needs {} (or auto)", key,
           name(*type), name(precision.compute), name(wide));
  };
  settle("master", precision.master);
  settle("grads", precision.grads);
  settle("reduce", precision.reduce);
}

void check_batch(const Job& job) {
  const Run& run = job.run;
  const std::int64_t at_once = run.micro_batch * dp(job);
  if (run.global_batch % at_once == 0) return;
  fail(ErrorKind::kUsage,
       "run.global_batch={} is not divisible by run.micro_batch={} x dp={} (dp_replicate={} x "
       "dp_shard={}) "
       "= {}; nearest that work: {}",
       run.global_batch, run.micro_batch, dp(job), job.parallel.dp_replicate, job.parallel.dp_shard,
       at_once, nearest_multiples("run.global_batch", run.global_batch, at_once));
}

void resolve_optim(Optim& optim, const Run& run) {
  const bool derived = optim.decay_steps == 0;
  if (derived) optim.decay_steps = run.steps;
  if (optim.min_lr > optim.lr)
    fail(ErrorKind::kUsage, "optim.min_lr={} is above optim.lr={}; lower min_lr or raise lr",
         optim.min_lr, optim.lr);
  // A run may end before its schedule does, but a schedule made of the run's length must have room.
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
         "optim.warmup_steps={} + optim.wsd_decay_fraction={} x optim.decay_steps={} = {} steps, "
         "more than "
         "decay_steps; lower one",
         optim.warmup_steps, optim.wsd_decay_fraction, optim.decay_steps,
         static_cast<double>(optim.warmup_steps) + decaying);
}

}  // namespace

Job resolve(Job job, int world, const DatasetFacts& data) {
  if (world < 1) fail(ErrorKind::kUsage, "a world of {} ranks; needs 1 or more", world);
  resolve_model(job.model, data);
  resolve_mesh(job.parallel, world);
  resolve_precision(job.precision);
  check_batch(job);
  resolve_optim(job.optim, job.run);
  if (job.run.eval_every > 0 && job.data.validation == 0)
    fail(ErrorKind::kUsage,
         "run.eval_every={} needs held-out text, but data.validation=0; set data.validation=0.1 or "
         "run.eval_every=0",
         job.run.eval_every);
  return job;
}

void check_runnable(const Job& job) {
  const auto need_one = [](const char* what, const char* key, int degree) {
    if (degree > 1)
      fail(ErrorKind::kUsage, "{} parallelism is not built yet: parallel.{}={}, needs 1", what, key,
           degree);
  };
  need_one("tensor", "tp", job.parallel.tp);
  need_one("context", "cp", job.parallel.cp);
  need_one("pipeline", "pp", job.parallel.pp);
}

std::vector<std::string> notes(const Job& job) {
  std::vector<std::string> remarks;
  const std::int64_t ids = job.run.global_batch / job.run.micro_batch;
  const bool powers = std::has_single_bit(static_cast<std::uint64_t>(ids)) &&
                      std::has_single_bit(static_cast<std::uint64_t>(dp(job)));
  if (job.precision.numerics == Numerics::kCanonical && !powers)
    remarks.push_back(fmt::format(
        "{} micro-batches a step on dp={}: equal bits on every layout need powers of two", ids,
        dp(job)));
  if (job.parallel.zero > 0 && job.parallel.dp_shard == 1 && job.parallel.dp_replicate > 1)
    remarks.push_back(
        fmt::format("parallel.zero={} shards over dp_shard=1, so every rank holds everything",
                    job.parallel.zero));
  return remarks;
}

int dp(const Job& job) { return job.parallel.dp_replicate * job.parallel.dp_shard; }

std::int64_t accumulation(const Job& job) {
  return job.run.global_batch / (job.run.micro_batch * dp(job));
}

}  // namespace trireme::config
