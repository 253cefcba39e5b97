#include "trireme/plan/unit_account.h"

#include <algorithm>
#include <utility>

#include "trireme/plan/coded_reduction.h"
#include "trireme/plan/compile/matrix_updates.h"
#include "trireme/plan/compile/placement.h"
#include "trireme/plan/low_rank.h"
#include "trireme/plan/outer_steps.h"
#include "trireme/plan/unit_share.h"
#include "trireme/plan/unit_types.h"

namespace trireme::plan {
namespace {

std::int64_t bytes_of(std::int64_t count, DType type) {
  return count * static_cast<std::int64_t>(size_of(type));
}

}  // namespace

UnitAccount::UnitAccount(const PlanSet& plan, int rank, Ledger& ledger)
    : plan_(plan),
      rank_(rank),
      recipe_(plan.recipe),
      list_(plan.list(rank)),
      ledger_(ledger),
      order_(list_),
      away_(plan.program, plan.recipe),
      units_(plan.program.units.size()) {
  for (UnitId unit : units_of_stage(plan.program, plan.mesh.coordinate(rank, mesh::Axis::kPp))) {
    const UnitShare share = share_of(plan, unit);
    at(unit) = {.sharing = sharing_of(plan.mesh, recipe_, of(unit)),
                .full = share.full,
                .part = share.part,
                .leaves = leaves_of(plan, unit),
                .sender_mbs = sender_micro_batches(plan, unit)};
    if (gathers_codes(recipe_, of(unit))) at(unit).codes = gathered_codes(plan, unit);
    persistent(unit);
  }
}

UnitAccount::ChunkMemory& UnitAccount::chunk(UnitMemory& unit, int number) const {
  const ChunkMemory fresh{.counter = BinaryCounter(summed_in_row(recipe_))};
  return unit.chunks.try_emplace(number, fresh).first->second;
}

std::int64_t UnitAccount::full_bytes(UnitId unit) const {
  return bytes_of(at(unit).full, param_type(recipe_, of(unit)));
}

std::int64_t UnitAccount::params_bytes(UnitId unit) const {
  const UnitMemory& memory = at(unit);
  if (memory.codes && memory.codes->rests) return memory.codes->part + memory.codes->kept();
  return bytes_of(memory.sharing.gathers ? memory.part : memory.full,
                  param_type(recipe_, of(unit)));
}

// Perhaps weights of their own, and states.
std::int64_t UnitAccount::states_bytes(UnitId unit) const {
  const std::int64_t part = at(unit).part;
  return part * master_bytes(recipe_, of(unit)) +
         (of(unit).trainable ? state_bytes(recipe_, of(unit), part) : 0);
}

std::int64_t UnitAccount::grad_bytes(std::int64_t count) const {
  return bytes_of(count, recipe_.grads);
}
std::int64_t UnitAccount::reduce_bytes(std::int64_t count) const {
  return bytes_of(count, reduce_type(recipe_));
}
bool UnitAccount::at_low_rank(const Instr& line) const {
  return line.coded && sums_at_low_rank(recipe_);
}
bool UnitAccount::converts(const Instr& line) const {
  return line.coded || reduce_type(recipe_) != recipe_.grads;
}

std::int64_t UnitAccount::level_bytes(const UnitMemory& unit) const {
  return grad_bytes(unit.sharing.scatters_each ? unit.part : unit.full);
}

// Where every micro-batch is scattered, or none, it is a level; else the part that came in.
std::int64_t UnitAccount::sum_bytes(const UnitMemory& unit) const {
  return unit.sharing.shards.empty() ? level_bytes(unit) : grad_bytes(unit.part);
}

// Elements that a scatter brings.
std::int64_t UnitAccount::received(const Instr& line, const UnitMemory& unit) {
  return line.mb >= 0 ? unit.part * unit.leaves : unit.part;
}

// Copies of gradients that a reduction makes, in addition to the gradients, in the type in which they travel.
std::int64_t UnitAccount::copied_bytes(const Instr& line, const UnitMemory& unit) const {
  if (at_low_rank(line))
    return low_rank(plan_, line.unit).buffers(low_rank_place(plan_, rank_, line.unit));
  if (line.coded) {
    const CodedReduction coded = coded_reduction(plan_, line.unit);
    return coded.buffers(plan_.mesh.index_in_group(rank_, line.axes) / std::max(coded.within, 1));
  }
  switch (reduction_of(plan_.program, line)) {
    case Reduction::kNone: break;
    case Reduction::kParts: return reduce_bytes(of(line.unit).tp_partial);
    case Reduction::kScatter:
      return converts(line) ? reduce_bytes(unit.full + received(line, unit)) : 0;
    case Reduction::kAllReduce:
    case Reduction::kTied: return converts(line) ? reduce_bytes(unit.part) : 0;
  }
  return 0;
}

void UnitAccount::persistent(UnitId unit) {
  if (!away_(unit, TensorKind::kParams)) ledger_.add(MemoryKind::kParams, params_bytes(unit));
  if (!away_(unit, TensorKind::kStates)) ledger_.add(MemoryKind::kOptimizer, states_bytes(unit));
  ledger_.add(MemoryKind::kOptimizer,
              residual_bytes(plan_, rank_, unit) + outer_bytes(plan_, unit));
  model_states_ += params_bytes(unit) + states_bytes(unit) + outer_bytes(plan_, unit) +
                   (of(unit).trainable ? level_bytes(at(unit)) : 0);
}

void UnitAccount::settle_before(int line) {
  const bool ended = line == static_cast<int>(list_.size());
  for (UnitMemory& unit : units_) {
    if (!ended && unit.pending >= 0 && settles(line, unit)) settle(unit);
    if (unit.gathering < 0 || !(ended || waits_for(line, unit.gathering))) continue;
    ledger_.add(MemoryKind::kCommBuffers, -unit.codes->bytes());
    unit.gathering = -1;
  }
}

// A list waits at lines that compute and at grad_norm.
bool UnitAccount::waits_for(int index, int pending) const {
  const Instr& line = list_[index];
  return (line.lane == Lane::kComp || line.lane == Lane::kD2h || line.verb == Verb::kGradNorm) &&
         order_.before(pending, index);
}

// A unit has one reduction at a time.
bool UnitAccount::settles(int index, const UnitMemory& unit) const {
  const Instr& line = list_[index];
  if (reduction_of(plan_.program, line) != Reduction::kNone && &at(line.unit) == &unit) return true;
  return waits_for(index, unit.pending);
}

void UnitAccount::unshard(const Instr& line, UnitMemory& unit) {
  if (unit.sharing.gathers) ledger_.add(MemoryKind::kUnitBuffers, full_bytes(line.unit));
  if (!unit.codes) return;
  unit.gathering = static_cast<int>(&line - list_.data());
  ledger_.add(MemoryKind::kCommBuffers, unit.codes->bytes());
}

void UnitAccount::settle(UnitMemory& unit) {
  const Instr& line = list_[std::exchange(unit.pending, -1)];
  ledger_.add(MemoryKind::kCommBuffers, -copied_bytes(line, unit));
  if (at_low_rank(line)) {  // the sums of its senders stay to the end
    ChunkMemory& sums = chunk(unit, line.chunk);
    ledger_.add(MemoryKind::kGradients, (1 - std::exchange(sums.levels, 1)) * level_bytes(unit));
    if (line.scatter) ledger_.add(MemoryKind::kGradients, grad_bytes(unit.part - unit.full));
    return;
  }
  if (!line.scatter) return;
  if (converts(line))
    ledger_.add(MemoryKind::kGradients, grad_bytes(received(line, unit)));
  else
    ledger_.add(line.mb >= 0 ? MemoryKind::kUnitBuffers : MemoryKind::kGradients,
                -grad_bytes(unit.full));
  if (line.mb < 0) return;
  ChunkMemory& sums = chunk(unit, line.chunk);
  const int before = sums.levels;
  for (int leaf = 0; leaf < unit.leaves; ++leaf) push(unit, sums);
  // The reloaded sum is among the levels now, or has been added to them.
  ledger_.add(MemoryKind::kGradients,
              (sums.levels - before) * grad_bytes(unit.part) - grad_bytes(received(line, unit)));
}

void UnitAccount::push(const UnitMemory& unit, ChunkMemory& chunk) const {
  chunk.counter.push();
  if (chunk.counter.pushed() == unit.sender_mbs) {
    ++chunk.senders;
    chunk.counter = BinaryCounter(summed_in_row(recipe_));
  }
  chunk.levels = chunk.counter.in_memory() + chunk.senders;
}

// Adds up the levels of a chunk into one buffer.
void UnitAccount::collapse(const UnitMemory& unit, ChunkMemory& chunk) {
  if (chunk.levels == 0) return;
  ledger_.drop_after(MemoryKind::kGradients, (chunk.levels - 1) * level_bytes(unit));
  chunk.levels = 1;
}

// And the sums of all chunks into one.
void UnitAccount::collapse(UnitMemory& unit) {
  int sums = 0;
  for (auto& [number, chunk] : unit.chunks) {
    collapse(unit, chunk);
    sums += std::exchange(chunk.levels, 0);
  }
  if (sums == 0) return;
  ledger_.drop_after(MemoryKind::kGradients, (sums - 1) * sum_bytes(unit));
  unit.chunks.begin()->second.levels = 1;
}

void UnitAccount::begin(const Instr& line) {
  switch (line.verb) {
    case Verb::kUnshard: unshard(line, at(line.unit)); break;
    case Verb::kReshard:
      if (at(line.unit).sharing.gathers)
        ledger_.drop_after(MemoryKind::kUnitBuffers, full_bytes(line.unit));
      if (away_(line.unit, TensorKind::kParams))
        ledger_.drop_after(MemoryKind::kStaging, params_bytes(line.unit));
      break;
    case Verb::kReload: reload(line); break;
    case Verb::kOffload: offload(line); break;
    case Verb::kReduceGrads: reduce(line, at(line.unit)); break;
    case Verb::kSyncTied:
      collapse(at(line.unit));
      if (!converts(line)) break;
      at(line.unit).pending = static_cast<int>(&line - list_.data());
      ledger_.add(MemoryKind::kCommBuffers, copied_bytes(line, at(line.unit)));
      break;
    case Verb::kGradNorm:
      for (UnitMemory& unit : units_) collapse(unit);
      break;
    case Verb::kExchangeUpdate: exchange_update(line); break;
    case Verb::kUpdateMatrices: update_matrices(line.unit); break;
    case Verb::kStep: step(line.unit); break;
    case Verb::kOuterReduce:
      ledger_.add(MemoryKind::kCommBuffers, merge_bytes(plan_, line.unit));
      break;
    case Verb::kOuterStep:
      ledger_.drop_after(MemoryKind::kCommBuffers, merge_bytes(plan_, line.unit));
      break;
    default: break;
  }
}

void UnitAccount::reduce(const Instr& line, UnitMemory& unit) {
  unit.pending = static_cast<int>(&line - list_.data());
  ledger_.add(MemoryKind::kCommBuffers, copied_bytes(line, unit));
  if (line.within > 0)  // the columns, until they are coded
    ledger_.transient(MemoryKind::kCommBuffers,
                      grad_bytes(coded_reduction(plan_, line.unit).count));
  if (line.residual && line.mb <= 0)  // micro-batches share what is new
    ledger_.add(MemoryKind::kOptimizer, residual_bytes(plan_, rank_, line.unit));
  if (at_low_rank(line))
    return ledger_.transient(
        MemoryKind::kCommBuffers,
        low_rank(plan_, line.unit).moving_bytes(low_rank_place(plan_, rank_, line.unit)));
  if (line.mb < 0) collapse(unit, chunk(unit, line.chunk));
  if (!line.scatter) return;
  if (line.mb >= 0) chunk(unit, line.chunk).leaf = false;
  if (converts(line))  // the copy is what travels
    ledger_.drop_after(line.mb >= 0 ? MemoryKind::kUnitBuffers : MemoryKind::kGradients,
                       grad_bytes(unit.full));
  else
    ledger_.add(MemoryKind::kGradients, grad_bytes(received(line, unit)));  // what comes in
}

// The direction of the elements here takes the place of their gradient, before so many bytes are taken.
void UnitAccount::direct(UnitId id, MemoryKind kind, std::int64_t taken) {
  UnitMemory& unit = at(id);
  const std::int64_t gradient = sum_bytes(unit);
  unit.chunks.clear();
  unit.direction = MatrixUpdates(plan_, id).bytes_of_part(shard_of(unit));
  ledger_.add(MemoryKind::kCommBuffers, unit.direction);
  ledger_.drop_after(MemoryKind::kGradients, gradient);
  ledger_.transient(kind, std::max(taken - gradient, std::int64_t{0}));
}

int UnitAccount::shard_of(const UnitMemory& unit) const {
  return plan_.mesh.index_in_group(rank_, unit.sharing.shards);
}

// Own matrices are here from the first exchange to the end of the second.
void UnitAccount::exchange_update(const Instr& line) {
  UnitMemory& unit = at(line.unit);
  const MatrixUpdates updates(plan_, line.unit);
  if (line.scatter) {
    unit.direction = updates.bytes_of_part(shard_of(unit));
    return ledger_.add(MemoryKind::kCommBuffers, unit.direction);
  }
  const std::int64_t owned = updates.bytes(updates.owned(shard_of(unit)));
  direct(line.unit, MemoryKind::kCommBuffers, owned);
  ledger_.drop_after(MemoryKind::kCommBuffers, -owned);
}

void UnitAccount::update_matrices(UnitId id) {
  UnitMemory& unit = at(id);
  const std::int64_t work = MatrixUpdates(plan_, id).work_bytes(shard_of(unit));
  if (!exchanges_updates(unit.sharing, of(id))) return direct(id, MemoryKind::kWork, work);
  ledger_.add(MemoryKind::kCommBuffers, -std::exchange(unit.direction, 0));
  ledger_.transient(MemoryKind::kWork, work);
}

void UnitAccount::step(UnitId id) {
  UnitMemory& unit = at(id);
  // Written from the copy that is stepped.
  if (has_master_copy(recipe_, of(id)) && away_(id, TensorKind::kParams))
    ledger_.add(MemoryKind::kStaging, params_bytes(id));
  if (of(id).by_matrix) {
    const MatrixUpdates updates(plan_, id);
    if (exchanges_updates(unit.sharing, of(id)))
      ledger_.add(MemoryKind::kCommBuffers, -updates.bytes(updates.owned(shard_of(unit))));
    ledger_.drop_after(MemoryKind::kCommBuffers, std::exchange(unit.direction, 0));
  } else {
    ledger_.drop_after(MemoryKind::kGradients, sum_bytes(unit));
  }
  ledger_.drop_after(MemoryKind::kOptimizer, residual_bytes(plan_, rank_, id));  // the old ones
  unit.chunks.clear();
}

void UnitAccount::reload(const Instr& line) {
  if (line.tensors == TensorKind::kParams)
    ledger_.add(MemoryKind::kStaging, params_bytes(line.unit));
  if (line.tensors == TensorKind::kStates)
    ledger_.add(MemoryKind::kStaging, states_bytes(line.unit));
  if (line.tensors == TensorKind::kGrads) reload_gradients(line);
}

void UnitAccount::reload_gradients(const Instr& line) {
  UnitMemory& unit = at(line.unit);
  if (unit.summed) return ledger_.add(MemoryKind::kGradients, grad_bytes(unit.part));
  for (auto& [number, chunk] : unit.chunks) {
    if (line.mb >= 0 && number != line.chunk) continue;
    const int levels = line.mb < 0 ? chunk.counter.bring_all() : chunk.counter.bring_met();
    chunk.levels += levels;
    ledger_.add(MemoryKind::kGradients, levels * level_bytes(unit));
  }
}

void UnitAccount::offload(const Instr& line) {
  if (line.tensors != TensorKind::kGrads) return;
  UnitMemory& unit = at(line.unit);
  if (line.mb < 0) {
    collapse(unit);
    unit.summed = true;
    unit.chunks.clear();
    return;
  }
  ChunkMemory& sums = chunk(unit, line.chunk);
  sums.counter.leave();
  sums.levels = sums.counter.in_memory();
}

void UnitAccount::gone(const Instr& line) {
  const UnitMemory& unit = at(line.unit);
  switch (line.tensors) {
    case TensorKind::kNone: break;
    case TensorKind::kStates: ledger_.add(MemoryKind::kStaging, -states_bytes(line.unit)); break;
    case TensorKind::kParams: ledger_.add(MemoryKind::kStaging, -params_bytes(line.unit)); break;
    case TensorKind::kGrads:
      ledger_.add(MemoryKind::kGradients,
                  line.mb < 0 ? -grad_bytes(unit.part) : -level_bytes(unit));
      break;
  }
}

void UnitAccount::add_gradients(const Instr& line) {
  const Node& node = plan_.program.nodes[line.node];
  for (UnitId id : node.units) {
    if (!of(id).trainable || std::exchange(chunk(at(id), node.chunk).leaf, true)) continue;
    ledger_.add(MemoryKind::kUnitBuffers, grad_bytes(at(id).full));
  }
}

void UnitAccount::complete(UnitId id, int number) {
  UnitMemory& unit = at(id);
  if (unit.sharing.scatters_each) return;  // its scatter takes it
  ChunkMemory& sums = chunk(unit, number);
  ledger_.drop_after(MemoryKind::kUnitBuffers, grad_bytes(unit.full));
  sums.leaf = false;
  const int before = sums.levels;
  push(unit, sums);
  ledger_.drop_after(MemoryKind::kGradients, (before - sums.levels) * level_bytes(unit));
}

}  // namespace trireme::plan
