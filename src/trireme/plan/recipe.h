// Recipe: what a job asks of a plan, apart from the model and the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trireme/base/dtype.h"
#include "trireme/base/tier.h"
#include "trireme/comm/codec/codec.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::plan {

using trireme::Tier;

// Units or values that are gathered, or come back, ahead of their use.
inline constexpr int kAhead = 1;

struct Offload {
  Tier optimizer =
      Tier::kNone;            // optimizer states, and master weights where they are a second copy
  Tier params = Tier::kNone;  // parameters, brought back for every run of their users
  Tier grads = Tier::kNone;   // sums of gradients
  Tier activations = Tier::kNone;  // inputs of recomputed nodes
  double ratio = 1;                // how much of the optimizer leaves, by whole units
  int prefetch = kAhead;           // units or values that come back ahead of their use
  bool any() const {
    return optimizer != Tier::kNone || params != Tier::kNone || grads != Tier::kNone ||
           activations != Tier::kNone;
  }
  bool operator==(const Offload&) const = default;
};

// Lossy sums of gradients. The canonical tree is cut into `senders` aligned blocks of micro-batches. The sum of each is
// coded once, and decoded sums are added above the cut.
struct CodedSums {
  codec::Codec codec;
  int senders = 1;
  std::optional<codec::Codec> back{};  // of the whole sum, which every rank then uses decoded
  std::optional<DType> residual{};     // each sender adds what its last code left out; kept as this
  bool operator==(const CodedSums&) const = default;
};

struct Recipe {
  int zero = 0;           // 0..3: a row of the lifetime table below
  int micro_batches = 1;  // per rank and step
  int prefetch = kAhead;  // ZeRO-3: units gathered ahead of use
  bool canonical = true;  // gradients of micro-batches are added as a balanced binary tree
  int group = 1;          // canonical: whose leaves are so many micro-batches, added in a row
  // ZeRO-1 and 2 gather after each step, when nothing else is left to do; else ahead of the next use.
  bool gathers_after_step = false;
  bool clip = true;  // step uses the factor that grad_norm found
  schedules::Schedule schedule = schedules::Schedule::k1F1B;
  double activation_limit = 1;  // zb_auto: a rank's activations, in times those of 1f1b
  // Micro-batches of one value that may wait in a queue for their receiver before the sender waits; more if the
  // schedule would otherwise stop.
  int unsent = 2;
  double transfer = 0;          // of an activation between stages, in times a chunk's mean forward
  DType compute = DType::kF32;  // parameters as blocks see them, activations
  DType master = DType::kF32;   // what the optimizer steps; equal to compute: one copy serves both
  DType grads = DType::kF32;    // accumulated gradients
  std::optional<DType> reduce{};  // gradients between ranks, if not as they are accumulated
  std::optional<CodedSums> coded{};
  int optimizer_states = 2;  // tensors per parameter (AdamW: 2)
  bool int8_states = false;  // of bytes with a scale a block (unit_types.h), not of master type
  Offload offload{};
  bool operator==(const Recipe&) const = default;
};

// How many gradients of a rank are added one after the other before sums are added as a tree (binary_counter.h).
int summed_in_row(const Recipe& recipe);

// Data parallelism is this table, not a class. dp = dp_replicate x dp_shard.
struct DataParallelRow {
  bool sharded_states;  // optimizer states (and master weights) are sharded over dp_shard
  bool sharded_params;  // full parameters live only around their use
  bool reduce_each_mb;  // reduce-scatter after every micro-batch; else once, after the last
  bool
      unshard_after_step;  // stepped shards are gathered into full parameters before their next use
};
DataParallelRow data_parallel_row(int zero);

}  // namespace trireme::plan
