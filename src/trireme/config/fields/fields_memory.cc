// Keys of number types, recomputation and offloading.
#include "trireme/config/fields/field_joined.h"
#include "trireme/config/fields/field_lists.h"

namespace trireme::config {

namespace {

// A type, or auto until the job is resolved.
Field compute_field() {
  Field field = choice(KEY(precision.compute),
                       "Type of parameters and activations in blocks. auto: bf16 on GPUs and on "
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
  const auto type = [](std::string_view key, auto at, std::string_view doc) {
    return choice(key, at, doc,
                  {{"auto", std::nullopt},
                   {"fp64", DType::kF64},
                   {"fp32", DType::kF32},
                   {"bf16", DType::kBF16}});
  };
  return {
      compute_field(),
      fixed(type(
          KEY(precision.master),
          "Type of master weights and optimizer states. auto: fp64 for compute fp64, else fp32. "
          "bf16 (compute bf16 only): one copy of the weights, with stochastic rounding.")),
      type(KEY(precision.grads),
           "Type of accumulated gradients. auto: fp64 for compute fp64, else fp32. bf16: compute "
           "bf16 with numerics fast."),
      type(KEY(precision.reduce),
           "Type of gradients in communication. auto: precision.grads. bf16: numerics fast."),
      text(KEY(precision.nodes),
           "Compute types of nodes, as comma-separated patterns such as "
           "head=fp32,block.[0-1]=fp32. The last match wins."),
      text(KEY(precision.loss_scale),
           "Loss scale: off, a number, or dynamic (DeepSpeed's rule; steps that overflow are "
           "skipped). auto: dynamic for compute fp16, else off."),
      choice(KEY(precision.numerics),
             "Order of sums: canonical (a fixed tree, with equal bits in power-of-two "
             "data-parallel layouts) or fast (the cheapest order).",
             {{"canonical", Numerics::kCanonical}, {"fast", Numerics::kFast}}),
      integer(KEY(precision.group),
              "Micro-batches of a rank that canonical sums add in a row, before the tree. A group "
              "needs one buffer; bits are equal on ranks with multiples of it "
              "(docs/numerics.md). 0: the smallest power of two that leaves at most 64 groups in "
              "a global batch.",
              from(0, kMaxBatch)),
  };
}

std::vector<Field> network_fields() {
  return {
      text(KEY(network.codec),
           "Codec of gradient sums between data-parallel ranks: bf16, q8, q4, f4, i8x, i4x, "
           "randk:SHARE:BITS, sign, topk:SHARE:BITS or lowrank:RANK. i8x and i4x are integers, "
           "which rings can add. q8:stochastic and q4:stochastic round by noise. "
           "lowrank:RANK:STEPS codes after so many steps (default: 10 % of run.steps). A last part "
           "bf16 or fp32, as in q4:bf16, keeps residuals of that type, which sign and topk need, "
           "and lowrank always has; q4:bf16:N keeps N, which senders use in turn. A codec after /, "
           "as in q4/q8, is that of the whole sum on its way back (docs/numerics.md). none: sums "
           "travel as they are."),
      integer(
          KEY(network.senders),
          "Blocks of micro-batches whose sums are coded; equal numbers have equal bits. 0: the "
          "number of data-parallel ranks, or of dp_replicate with ZeRO and shards. ZeRO-2 and 3 "
          "without replicas: those of all micro-batches together.",
          from(0, kMaxBatch)),
      text(KEY(network.gather),
           "Codec of parameters: bf16, q8, q4 or f4. In every layout, blocks compute with what "
           "codes "
           "of the fp32 masters decode to. Under ZeRO-3, q8:RANKS shards the codes of a step's "
           "first gather over so many ranks of a host. Later gathers are among these. none: "
           "parameters travel as they are."),
      choice(KEY(network.algorithm),
             "Algorithm of sums and gathers between hosts (docs/numerics.md#algorithms). auto: "
             "hierarchical where hosts hold aligned blocks of ranks, else direct.",
             {{"auto", algorithm::Kind::kAuto},
              {"direct", algorithm::Kind::kDirect},
              {"hierarchical", algorithm::Kind::kHierarchical},
              {"halving", algorithm::Kind::kHalving},
              {"tree", algorithm::Kind::kTree},
              {"ring", algorithm::Kind::kRing},
              {"ring_gather", algorithm::Kind::kRingGather}}),
      fixed(text(
          KEY(network.outer),
          "Islands that train apart and merge their weights (DiLoCo), which divide "
          "dp_replicate. Form: islands:W,every:STEPS, with lr, momentum, fragments, delay, blend, "
          "codec, back, merge and streaming (docs/parallel.md). none: gradients of all replicas "
          "are added.")),
      text(KEY(network.nccl),
           "NCCL settings of GPU runs, such as algo=Ring,ib_hca=mlx5_0,mlx5_1: environment "
           "variables that are set before the start (docs/gpu.md). Empty: none."),
  };
}

std::vector<Field> recompute_fields() {
  return {
      with_suffix(
          choice(KEY(recompute.policy),
                 "Activation recomputation with the same bits. full: blocks keep only their input "
                 "(full:BLOCKS: a segment keeps only its first). selective: blocks leave out "
                 "recompute.parts. auto: the cheapest choice within recompute.memory.",
                 {{"none", RecomputePolicy::kNone},
                  {"full", RecomputePolicy::kFull},
                  {"selective", RecomputePolicy::kSelective},
                  {"auto", RecomputePolicy::kAuto}}),
          {"full"}, "BLOCKS", MEMBER(recompute.every), from(1, kMaxIds)),
      text(KEY(recompute.nodes),
           "Nodes that the policy applies to, as comma-separated patterns such as "
           "block.[0-11],head. Empty: all nodes that can be recomputed."),
      text(KEY(recompute.parts),
           "Parts that selective recomputes, comma-separated: norms (norm outputs), attention (its "
           "output), mlp (the activation's input), logits."),
      bytes(KEY(recompute.memory),
            "Memory budget of policy auto per rank, without the library that run.memory_limit "
            "includes."),
      boolean(
          KEY(recompute.logits),
          "Recomputation of logits in the backward pass, 8192 tokens of the vocabulary at a time."),
  };
}

std::vector<Field> offload_fields() {
  const auto tier = [](std::string_view key, auto at, std::string_view doc) {
    return choice(key, at, doc,
                  {{"none", Tier::kNone}, {"host", Tier::kHost}, {"nvme", Tier::kNvme}});
  };
  return {
      with_suffix(tier(KEY(offload.optimizer),
                       "Location of optimizer states and master copies between steps: none (device "
                       "memory), host, or nvme (a file in offload.path). SHARE: the part of them "
                       "that is offloaded, in whole units (1 if left out)."),
                  {"host", "nvme"}, "SHARE", MEMBER(offload.ratio), above(0, 1)),
      tier(KEY(offload.params), "Location of parameters between the passes of their blocks."),
      tier(KEY(offload.grads),
           "Location of accumulated gradients between micro-batches and until the step."),
      choice(
          KEY(offload.activations),
          "Location of the inputs of recomputed blocks (recompute.policy) until backward. tp: "
          "sharded over tensor-parallel ranks (sequence_parallel false).",
          {{"none", Tier::kNone}, {"host", Tier::kHost}, {"nvme", Tier::kNvme}, {"tp", Tier::kTp}}),
      text(KEY(offload.path),
           "Existing directory of the nvme scratch file. Empty: scratch in the run directory."),
  };
}

}  // namespace trireme::config
