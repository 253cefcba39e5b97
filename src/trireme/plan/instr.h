// Instr: one line of a plan. Verbs and lanes are closed lists; a line holds ids only.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/program.h"

namespace trireme::plan {

enum class Verb : std::uint8_t {
  kLoad,            // bring the stage's inputs of micro-batch mb
  kUnshard,         // gather a unit's full parameters over `axes`
  kReshard,         // drop a unit's full parameters
  kForward,         // run a node; `keep` saves what its backward needs
  kRecompute,       // repeat a node's forward, keeping what its backward needs
  kBackward,        // input and weight gradients of a node
  kBackwardInput,   // input gradients only
  kBackwardWeight,  // the weight gradients that kBackwardInput left
  kSend,            // a value (or, with `gradient`, its gradient) to pipeline stage `peer`
  kRecv,
  kReduceGrads,  // a unit's gradient over `axes`: of micro-batch mb, or of the whole step (mb -1)
  kSyncTied,     // add a tied unit's gradient over the pipeline stages that use it
  kOffload,   // a shard of a unit, or a value, leaves memory; written back if the step changed it
  kReload,    // and returns
  kGradNorm,  // global gradient norm and losses; decides the clip factor
  kExchangeUpdate,  // of a unit updated by matrix: to the owners of its matrices, or with `scatter` back
  kUpdateMatrices,  // updates of the matrices that the rank owns
  kStep,            // optimizer step of a unit
  kEma,             // move a unit towards the unit it follows
  kOuterReduce,     // mean over islands of how far each has moved a unit
  kOuterStep,       // outer step of a unit by that mean
};

// Part of a unit that a line moves out of memory or back.
enum class TensorKind : std::uint8_t {
  kNone,
  kStates,  // optimizer states, and separate master weights
  kParams,  // in compute type, what the rank holds between steps
  kGrads,  // of micro-batch mb: the partial sums that it is added to, or the one it makes; else the
           // step's
};

// Resource of an instruction. Lines of a lane start and complete in program order; `after` orders across lanes. Waiting
// for a line therefore waits for all earlier lines of its lane too. A line of the dp lane that runs at once (grad_norm)
// finds everything before it in that lane complete. The lanes up and down hold one queue for the sends to each stage
// and one for the receives from each. Order holds within these queues, so that no transfer waits for another stage's.
enum class Lane : std::uint8_t { kComp, kDp, kUp, kDown, kH2d, kD2h };

// Lanes of verbs. Load, forward, recompute, backward*, update_matrices, step, ema, outer_step and reshard (it frees
// memory): comp. Unshard, reduce_grads, sync_tied, grad_norm, exchange_update, outer_reduce: dp. Reload: h2d; offload: d2h. For a value shared by tp ranks, reload is a
// collective (dp) and offload frees memory (comp). Send and recv towards a later stage: down; towards an earlier: up.
struct Instr {
  Verb verb = Verb::kLoad;
  Lane lane = Lane::kComp;
  NodeId node = -1;
  UnitId unit = -1;
  ValueId value = -1;
  TensorKind tensors = TensorKind::kNone;  // for reload and offload of a unit
  int mb = -1;                             // micro-batch of this rank, 0 .. micro_batches-1
  int peer = -1;                           // pipeline stage
  int chunk = 0;         // of a micro-batch's gradient, if several chunks have one
  mesh::AxisSet axes{};  // of a collective
  bool keep = false;     // forward: saves for backward
  // reduce_grads: reduce-scatter (else all-reduce of the present gradient). exchange_update: back to the shards.
  bool scatter = false;
  // unshard: among blocks of so many neighbours, which keep the codes. reduce_grads of codes: such blocks add as they are
  // and code their sums. 0: there are no blocks.
  int within = 0;
  bool coded = false;        // unshard, reduce_grads: codes of the recipe's codec travel
  bool residual = false;     // reduce_grads: senders add their residuals; step: keeps the new ones
  bool gradient = false;     // send, recv: the value's gradient
  std::vector<int> after{};  // earlier lines of the same list, in other lanes, ascending
  bool operator==(const Instr&) const = default;
};

// Scope of a line's order: its lane; in a lane between stages the transfers of one kind and peer.
struct Queue {
  Lane lane = Lane::kComp;
  Verb verb = Verb::kLoad;  // send or recv
  int peer = -1;
  bool operator==(const Queue&) const = default;
};
inline bool is_transfer(const Instr& line) {
  return line.verb == Verb::kSend || line.verb == Verb::kRecv;
}
inline Queue queue_of(const Instr& line) {
  if (!is_transfer(line)) return {.lane = line.lane};
  return {.lane = line.lane, .verb = line.verb, .peer = line.peer};
}

// Queue of the other side of a transfer in a queue of `stage`.
inline Queue counterpart(Queue queue, int stage) {
  if (queue.verb != Verb::kSend && queue.verb != Verb::kRecv) return queue;
  queue.verb = queue.verb == Verb::kSend ? Verb::kRecv : Verb::kSend;
  queue.peer = stage;
  return queue;
}

// Verbs that run a node: forward, recompute, backward and its parts.
bool computes(const Instr& line);
// All of these except the weight backward.
bool reads_values(const Instr& line);
// Those of them that need the parameters of the node's units.
bool uses_parameters(const Node& node, const Instr& line);
// Verbs that give gradients to a node's inputs.
bool gives_gradients(const Instr& line);
// Verbs that add to the gradients of a node's units.
bool adds_gradients(const Instr& line);

// How often a node makes one of its exchanges in a line of this verb, and the number of its operations.
int times(const Node& node, const NodeExchange& exchange, Verb verb);
double flops(const Node& node, Verb verb);

std::string_view name(Verb verb);
std::string_view name(Lane lane);
std::string_view name(TensorKind tensors);  // "states", ...; "" for none

}  // namespace trireme::plan
