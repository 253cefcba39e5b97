// In what types numbers are kept, what is computed again, and what waits elsewhere.
#include "trireme/config/fields/field_kinds.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

namespace {

// A type, or auto until the job is resolved.
Field compute_field() {
  Field field =
      choice(KEY(precision.compute),
             "Type of parameters and activations inside blocks; auto: bf16 on GPUs and on "
             "CPUs with AMX or AVX-512 BF16, else fp32.",
             {{"fp64", DType::kF64},
              {"fp32", DType::kF32},
              {"bf16", DType::kBF16},
              {"fp16", DType::kF16}});
  field.choices.emplace_back("auto");
  field.get = [type = field.get](const Job& job) -> Value {
    return job.precision.compute_auto ? Value(std::string("auto")) : type(job);
  };
  field.set = [type = field.set](Job& job, const Value& value) {
    job.precision.compute_auto = std::get<std::string>(value) == "auto";
    if (!job.precision.compute_auto) type(job, value);
  };
  return field;
}

}  // namespace

std::vector<Field> precision_fields() {
  const auto type = [](std::string key, auto at, std::string doc) {
    return choice(std::move(key), at, std::move(doc),
                  {{"auto", std::nullopt},
                   {"fp64", DType::kF64},
                   {"fp32", DType::kF32},
                   {"bf16", DType::kBF16}});
  };
  return {
      compute_field(),
      fixed(type(KEY(precision.master),
                 "Type of the weights and states that the optimizer steps; auto: fp64 for compute "
                 "fp64, else fp32. With bf16, for compute bf16, one copy of the weights serves "
                 "blocks and optimizer.")),
      type(KEY(precision.grads),
           "Type in which gradients accumulate; auto: fp64 for compute fp64, else fp32. bf16, for "
           "compute bf16, needs numerics fast."),
      type(KEY(precision.reduce),
           "Type in which gradients travel between ranks; auto: as they accumulate. bf16 needs "
           "numerics fast."),
      choice(KEY(precision.rounding),
             "How the optimizer rounds to master bf16; auto: stochastic, which loses no small "
             "updates on average.",
             {{"auto", std::nullopt},
              {"stochastic", Rounding::kStochastic},
              {"nearest", Rounding::kNearest}}),
      text(KEY(precision.nodes),
           "Compute types of nodes, by patterns such as head=fp32,block.[0-1]=fp32; the last one "
           "that matches counts."),
      text(KEY(precision.loss_scale),
           "What multiplies gradients on their way: off, a number, or dynamic (DeepSpeed's rule; a "
           "step that overflows is skipped); auto: dynamic for compute fp16, else off."),
      number(KEY(precision.loss_scale_start), "Dynamic loss scale of the first step.",
             above(0, 1e30)),
      integer(KEY(precision.loss_scale_window),
              "Steps without overflow before the loss scale is raised.", from(1, kMaxSteps)),
      number(KEY(precision.loss_scale_factor),
             "What a dynamic loss scale is multiplied or divided by; powers of two change no bits.",
             above(1, 1e6)),
      integer(KEY(precision.loss_scale_hysteresis), "Overflows before the loss scale is lowered.",
              from(1, 1 << 20)),
      number(KEY(precision.loss_scale_floor),
             "Lowest dynamic loss scale; an overflow there ends the run.", above(0, 1e30)),
      choice(KEY(precision.numerics),
             "canonical: sums walk one fixed tree, so that power-of-two data-parallel layouts give "
             "equal bits; fast: sums in whatever order is cheapest.",
             {{"canonical", Numerics::kCanonical}, {"fast", Numerics::kFast}}),
  };
}

std::vector<Field> recompute_fields() {
  return {
      choice(KEY(recompute.policy),
             "What forwards do not keep but backwards compute again, with the same bits. full: "
             "blocks keep only their input; selective: they leave out some parts; uniform: "
             "segments of a few blocks keep only their input; block: as full, but only the first "
             "blocks; segments: as uniform, of about the square root of a stage's blocks; auto: "
             "the cheapest choice of parts and whole blocks that fits into recompute.memory.",
             {{"none", RecomputePolicy::kNone},
              {"full", RecomputePolicy::kFull},
              {"selective", RecomputePolicy::kSelective},
              {"uniform", RecomputePolicy::kUniform},
              {"block", RecomputePolicy::kBlock},
              {"segments", RecomputePolicy::kSegments},
              {"auto", RecomputePolicy::kAuto}}),
      text(KEY(recompute.nodes),
           "Nodes that the policy may choose, by patterns such as block.[0-11],head; empty: all "
           "that can be computed again."),
      text(KEY(recompute.parts),
           "selective: parts that are left out: norms (normed inputs), attention (its result), mlp "
           "(what the activation reads), logits."),
      integer(KEY(recompute.every), "uniform: blocks of a segment.", from(0, kMaxIds)),
      integer(KEY(recompute.first), "block: how many blocks run again.", from(0, kMaxIds)),
      bytes(KEY(recompute.memory),
            "auto: what the plan of one rank may take, parameters, optimizer and all; on a CPU "
            "also what waits in host memory. The library itself is not in it, as it is in "
            "run.memory_limit."),
      boolean(KEY(recompute.logits),
              "Keep no logits: backward computes them again, 8192 tokens of the vocabulary at a "
              "time, for one product more."),
  };
}

std::vector<Field> offload_fields() {
  const auto tier = [](std::string key, auto at, std::string doc) {
    return choice(
        std::move(key), at, doc,
        {{"none", OffloadTier::kNone}, {"host", OffloadTier::kHost}, {"nvme", OffloadTier::kNvme}});
  };
  return {
      tier(KEY(offload.optimizer),
           "Where optimizer states, and master weights that are a copy, wait for their step: none "
           "(in memory), host memory, or nvme (a file in offload.path)."),
      tier(KEY(offload.params),
           "Where parameters wait for forwards and backwards of their blocks."),
      tier(KEY(offload.grads),
           "Where sums of gradients wait for more micro-batches and for their step."),
      choice(KEY(offload.activations),
             "Where the inputs of blocks that run again (recompute.policy) wait for backward; tp: "
             "each tensor-parallel rank keeps its part of them (sequence_parallel false).",
             {{"none", OffloadTier::kNone},
              {"host", OffloadTier::kHost},
              {"nvme", OffloadTier::kNvme},
              {"tp", OffloadTier::kTp}}),
      number(KEY(offload.ratio), "How much of the optimizer leaves memory, in whole units.",
             above(0, 1)),
      integer(KEY(offload.prefetch), "Units or activations that come back ahead of their use.",
              from(0, 1 << 10)),
      text(KEY(offload.path),
           "Existing directory for the scratch file (nvme), which has no name there and is gone "
           "with the process; empty: scratch in the run directory."),
      choice(KEY(offload.engine),
             "How the scratch file is read and written (nvme); auto: io_uring where it works, else "
             "threads.",
             {{"auto", OffloadEngine::kAuto},
              {"io_uring", OffloadEngine::kIoUring},
              {"threads", OffloadEngine::kThreads}}),
  };
}

}  // namespace trireme::config
