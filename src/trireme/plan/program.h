// Program: what a model computes, as a straight line over named values. No tensors, no callbacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/plan/matrix.h"
#include "trireme/plan/mesh/axis.h"

namespace trireme::plan {

// Indices into Program::values, ::units and ::nodes; -1: no such entry.
using ValueId = int;
using UnitId = int;
using NodeId = int;

// An activation (or input) that crosses nodes. It may have several readers.
struct Value {
  std::string name{};
  std::int64_t bytes = 0;             // of one micro-batch on one rank
  bool differentiable = true;         // false for tokens, masks, positions
  std::vector<std::int64_t> shape{};  // in elements; a value that crosses stages needs one
  bool whole = false;                 // all tp ranks have the same: each could keep a part
  bool varies = false;  // shape[0] is the most there can be: how many there are is announced
  std::optional<DType> type{};  // if not the recipe's compute type
  bool operator==(const Value&) const = default;
};

// The mesh axes on which ranks share a unit. `shards` are among `replicas`, `partial` is not.
struct UnitAxes {
  mesh::AxisSet shards = mesh::kShards;      // over which ZeRO shards it
  mesh::AxisSet replicas = mesh::kReplicas;  // with equal parameters: gradients are added
  mesh::AxisSet partial = mesh::Axis::kTp;   // whose ranks add the gradients of partial elements
  bool operator==(const UnitAxes&) const = default;
};

// A flat group of parameters: what is unsharded, reduced, stepped and checkpointed together.
struct Unit {
  std::string name{};
  std::int64_t numel = 0;  // on one rank, without padding: under tp, the largest rank's
  bool trainable = true;   // false: no gradient, no optimizer state, no reduction
  UnitId ema_of = -1;      // a frozen unit that follows another by exponential moving average
  UnitId part_of = -1;     // a unit that it was divided from
  // Elements of parameters that several tp ranks hold and for whose gradient each has only the part of its tokens or
  // heads. `reduce_grads` over `axes.partial` adds them.
  std::int64_t tp_partial = 0;
  std::optional<DType> type{};  // of its parameters as blocks see them, if not the recipe's
  UnitAxes axes{};
  bool by_matrix = false;       // its optimizer updates whole matrices, which are all its elements
  std::optional<int> states{};  // tensors of optimizer state for a parameter, if not the recipe's
  std::vector<Matrix> matrices{};  // ascending; if by_matrix, or the recipe sums at low rank
  bool operator==(const Unit&) const = default;
};

// Exchange of a node with other ranks inside its forward and backward. The ranks of the group run the same line, so
// they meet there.
enum class Exchange { kAllReduce, kAllGather, kReduceScatter, kAllToAll, kSendRecv };
std::string_view name(Exchange exchange);  // "all_reduce", ...

struct NodeExchange {
  Exchange kind = Exchange::kAllReduce;
  mesh::AxisSet axes{};
  // Of the whole that is reduced, gathered or scattered; of what a rank gives to an all_to_all or send_recv.
  std::int64_t bytes = 0;
  int forward = 0;     // times a forward
  int backward = 0;    // times a backward, or its input half
  int weight = 0;      // times its weight half, or once more a whole backward
  std::string part{};  // what `backward` counts comes with computing this part of the node again
  bool operator==(const NodeExchange&) const = default;
};

// Data that a node keeps, or leaves out and recomputes inside its backward, with the same bits.
struct Part {
  std::string name{};
  std::int64_t saved_bytes = 0;  // of the node's
  std::int64_t work_bytes = 0;   // bytes while backward recomputes it; parts follow one another
  double flops = 0;              // more for backward
  bool whole = false;            // a backward that recomputes it is not split
  bool recomputed = false;       // it is left out
  bool operator==(const Part&) const = default;
};

// A split backward: first the gradients of the node's inputs, later those of its units.
struct BackwardSplit {
  std::int64_t kept_bytes = 0;  // from the one to the other
  double weight_flops = 0;      // of the second, out of all the backward's
  bool operator==(const BackwardSplit&) const = default;
};

// Peak bytes of a line of a node, in addition to values, their gradients and the node's kept data.
struct NodeWork {
  std::int64_t forward = 0;  // of one that keeps
  std::int64_t passing = 0;  // of one that keeps nothing
  std::int64_t backward = 0;
  std::int64_t input = 0;   // of its input half
  std::int64_t weight = 0;  // of its weight half
  bool operator==(const NodeWork&) const = default;
};

// Measured seconds of one micro-batch on one rank, if any; without recomputed parts.
struct NodeSeconds {
  double forward = 0;
  double input = 0;   // of a backward's input half
  double weight = 0;  // of its weight half
  double backward() const { return input + weight; }
  bool operator==(const NodeSeconds&) const = default;
};

// One step of the model: reads values, writes values, uses units. Its backward is explicit.
struct Node {
  std::string name{};
  std::vector<ValueId> reads{};
  std::vector<ValueId> writes{};
  std::vector<UnitId> units{};
  bool no_grad = false;   // forward only, whatever it reads (an EMA teacher)
  bool loss = false;      // writes one scalar; its gradient is seeded, not received
  bool looks_up = false;  // its forward picks rows of its units: a backward reads no parameters
  bool joint = false;  // a loss that runs once a step, on what all micro-batches of the rank wrote
  int stage = 0;       // pipeline rank that runs it
  int chunk = 0;       // which of that rank's chunks it belongs to
  // -1: its forward keeps what its backward needs. Else it keeps nothing, and all nodes of the segment are recomputed,
  // one after the other, before the first of their backwards. Results without readers outside are not kept.
  int segment = -1;
  std::int64_t saved_bytes = 0;  // kept for backward besides inputs, with all its parts
  std::vector<Part> parts{};
  NodeWork work{};
  double flops = 0;                        // of one micro-batch's forward
  std::optional<double> backward_flops{};  // without recomputed parts; not set: twice the forward's
  std::optional<BackwardSplit> split{};
  std::optional<NodeSeconds> seconds{};
  std::vector<NodeExchange> exchanges{};
  bool operator==(const Node&) const = default;
};

// Nodes in execution order. A value that no node writes is an input: `load` brings it.
struct Program {
  std::string name{};
  std::vector<Value> values{};
  std::vector<Unit> units{};
  std::vector<Node> nodes{};
  bool operator==(const Program&) const = default;
};

// Kept bytes of a forward: all except recomputed parts; operations of these, and their seconds.
std::int64_t kept_bytes(const Node& node);
std::int64_t work_bytes(const Node& node);
double recompute_flops(const Node& node);
// Whether the node has a part of this name and leaves it out.
bool recomputes(const Node& node, std::string_view part);

// Which gradients exist: one answer for passes, validator, memory account and executor.
struct GradientFlow {
  std::vector<bool> value_has_grad;     // something trainable comes before it and a loss after it
  std::vector<bool> node_has_backward;  // not no_grad, on a path to a loss, and has a trainable
                                        // unit or reads a value with gradient
};
GradientFlow gradient_flow(const Program& program);

// Throws Error{kInternal} for a malformed program. Names: they repeat or are no words. Ids: out of range. Values:
// written twice, or read before they are written. Losses: a loss node writes more than one value, or its value is read.
// Units: one follows a unit that does not come before it. Exchanges: one runs over no axis or belongs to no part.
// Parts: they keep more than their node. Segments: one holds a loss or spans chunks. Joint nodes: one is no loss or
// shares a unit. Stages: they run backwards.
void check_program(const Program& program);

}  // namespace trireme::plan
