// Recipe: what a job asks of a plan, apart from the model and the mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/tier.h"
#include "trireme/comm/algorithm/algorithm.h"
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
  // Number of residuals, a divisor of the senders: sender s uses number s modulo it, one after the other in a step. 0: as
  // many as code at the same time, which is every sender, or those of one micro-batch.
  int residuals = 0;
  bool operator==(const CodedSums&) const = default;
};

// Lossy gathers of parameters. Every row, one rank included, computes with what the codes of its fp32 masters decode to.
struct CodedGather {
  codec::Codec codec;
  // ZeRO-3: so many neighbouring shards, the ranks of a host, keep the codes of a step's first gather, each its share of
  // them. Later gathers of the step are among these. 0: every gather is among all.
  int within = 0;
  bool operator==(const CodedGather&) const = default;
};

// Fragments of the trained units that one step merges over islands.
struct OuterWork {
  std::vector<int> applied{};  // sent by earlier steps
  std::vector<int> sent{};
  bool at_once = false;  // what is sent is applied in the same step
  bool operator==(const OuterWork&) const = default;
};

// Outer steps: the islands of the mesh train apart and merge in rounds of `every` steps. With
// outer weights G, velocity v and an island's weights w: m is the weighted mean of G - w over islands, v = momentum v + m,
// G -= lr (m + momentum v), w = blend w + (1 - blend) G. With `direction`, m of a layer gets the mean of the islands' norms.
struct OuterSteps {
  int islands = 1;
  std::int64_t every = 30;
  int fragments = 1;  // of the model, each merged at its own step of a round
  int delay = 0;      // steps between sending and applying a fragment
  double blend = 0;
  double lr = 0.7;
  double momentum = 0.9;
  std::optional<codec::Codec> codec{};  // of each island's difference, in units of kLeastCoded
  std::optional<codec::Codec> back{};   // of its mean
  std::optional<DType> residual{};      // islands add what their last code left out; kept as this
  bool direction = false;
  OuterWork work{};  // of the step that a plan is of
  bool operator==(const OuterSteps&) const = default;
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
  std::optional<OuterSteps> outer{};
  std::optional<CodedGather> gather{};
  algorithm::Kind algorithm = algorithm::Kind::kAuto;  // of collectives between hosts
  int optimizer_states = 2;                            // tensors per parameter (AdamW: 2)
  int matrix_rounds = 0;  // iterations of an update by matrix (matrix_updates.h); 0: there are none
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
