// Reductions of gradients between ranks. The gradients of one unit in a rank's chunks are reduced over ranks chunk by
// chunk and added at the end. Every row of the lifetime table, and every pipeline, thus adds in one order.
#include <c10/core/InferenceMode.h>

#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/unit_state.h"
#include "trireme/exec/units/units.h"
#include "trireme/plan/unit_types.h"

namespace trireme::exec {

using plan::Reduction;

namespace {

// Converts; both are equally long.
void copy_gradient(const Flat& from, const Flat& to) {
  to.tensor(0, to.count()).copy_(from.tensor(0, from.count()));
}

// Gradients are added up last: what they were and what they travel in are live together, as the plan's account has it.
struct Way {
  UnitState& unit;
  comm::Group& group;
  MemoryCount& memory;
  DType grads;
  DType travels;

  bool converts() const { return travels != grads; }

  // Of the part that this rank steps: one chunk's, or all of them.
  void all_reduce() const {
    if (converts()) unit.sent = Flat(memory, unit.part_count, travels);
    const bool tied = unit.reduction == Reduction::kTied;
    if (tied) unit.grad = unit.collapse();
    const Flat& gradient = tied ? unit.grad : unit.on_way().reduced(false);
    if (converts()) copy_gradient(gradient, unit.sent);
    unit.reduce =
        group.all_reduce((converts() ? unit.sent : gradient).buffer(), comm::Reduce::kSum);
  }

  // Of parts that tp ranks share, so many elements.
  void add_parts(std::int64_t count) const {
    unit.sent = Flat(memory, count, travels);
    unit.sent.zero();
    unit.copy_parts(unit.on_way().reduced(unit.each_mb), unit.sent, /*back=*/false);
    unit.reduce = group.all_reduce(unit.sent.buffer(), comm::Reduce::kSum);
  }

  void scatter() const {
    const bool leaves = unit.each_mb && unit.leaves > 1;
    unit.received = Flat(memory, leaves ? unit.padded : unit.part_count, travels);
    if (converts()) unit.sent = Flat(memory, unit.padded, travels);
    Flat own = std::exchange(unit.on_way().reduced(unit.each_mb), Flat());
    if (converts())
      copy_gradient(own, unit.sent);
    else
      unit.sent = std::move(own);
    const std::vector<std::int64_t> parts(static_cast<std::size_t>(group.size()), unit.part_count);
    unit.reduce =
        leaves
            ? group.all_to_all(unit.sent.buffer(), parts, unit.received.buffer(), parts)
            : group.reduce_scatter(unit.sent.buffer(), unit.received.buffer(), comm::Reduce::kSum);
  }
};

}  // namespace

void Units::reduce_begin(plan::UnitId id, const plan::Instr& line, const CodedArgs& args) {
  at::NoGradGuard no_grad;
  finish_reduce(id);
  UnitState& unit = at(id);
  const Reduction reduction = plan::reduction_of(plan_.program, line);
  unit.reduction = reduction;
  unit.chunk_on_way = line.chunk;
  unit.each_mb = line.mb >= 0;
  unit.mb_on_way = line.mb;
  unit.coded = line.coded;
  if (line.coded) return send_codes(id, args);
  const Way way{.unit = unit,
                .group = reduction == Reduction::kTied ? groups_.tied(id) : groups_.over(line.axes),
                .memory = *memory_,
                .grads = plan_.recipe.grads,
                .travels = plan::reduce_type(plan_.recipe)};
  switch (reduction) {
    case Reduction::kNone: break;
    case Reduction::kParts: way.add_parts(plan_.program.units[id].tp_partial); break;
    case Reduction::kScatter: way.scatter(); break;
    case Reduction::kAllReduce:
    case Reduction::kTied: way.all_reduce(); break;
  }
}

void Units::finish_reduce(plan::UnitId id) {
  UnitState& unit = at(id);
  if (unit.reduction == Reduction::kNone) return;
  unit.reduce.wait();
  const Reduction ended = std::exchange(unit.reduction, Reduction::kNone);
  if (std::exchange(unit.coded, false)) return add_codes(id);
  ChunkGradient& chunk = unit.on_way();
  if (ended == Reduction::kParts)
    unit.copy_parts(chunk.reduced(unit.each_mb), unit.sent, /*back=*/true);
  else if (unit.sent && ended == Reduction::kAllReduce)
    copy_gradient(unit.sent, chunk.sum);
  else if (unit.sent && ended == Reduction::kTied)
    copy_gradient(unit.sent, unit.grad);
  unit.sent = Flat();
  if (!unit.received) return;
  if (unit.received.type() != plan_.recipe.grads) {
    Flat converted(*memory_, unit.received.count(), plan_.recipe.grads);
    copy_gradient(unit.received, converted);
    unit.received = std::move(converted);
  }
  if (!unit.each_mb)
    chunk.sum = std::exchange(unit.received, Flat());
  else
    push_leaves(unit, unit.chunk_on_way);
}

void Units::push_leaves(UnitState& unit, int chunk) {
  GradientCounter& counter = unit.chunks[chunk].counter;
  Flat received = std::exchange(unit.received, Flat());
  if (unit.leaves == 1) return counter.push(std::move(received));
  for (int leaf = 0; leaf < unit.leaves; ++leaf) {
    Flat part(*memory_, unit.part_count, received.type());
    part.tensor(0, unit.part_count).copy_(received.tensor(leaf * unit.part_count, unit.part_count));
    counter.push(std::move(part));
  }
}

}  // namespace trireme::exec
