#include "trireme/plan/program.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/plan/compile/placement.h"

namespace trireme::plan {
namespace {

const Part* find_part(const Node& node, std::string_view name) {
  const auto part = std::ranges::find(node.parts, name, &Part::name);
  return part == node.parts.end() ? nullptr : &*part;
}

bool reads_any(const Node& node, const std::vector<bool>& marked) {
  for (ValueId value : node.reads)
    if (marked[value]) return true;
  return false;
}

// Values that depend on a trainable parameter through differentiable values alone.
std::vector<bool> trainable_before(const Program& program) {
  std::vector<bool> marked(program.values.size(), false);
  for (const Node& node : program.nodes) {
    if (node.no_grad) continue;
    bool trains = reads_any(node, marked);
    for (UnitId unit : node.units) trains = trains || program.units[unit].trainable;
    for (ValueId value : node.writes)
      marked[value] = trains && program.values[value].differentiable;
  }
  return marked;
}

// Names are words of the plan's text.
template <typename Named>
void check_names(const Program& program, const std::vector<Named>& all, const char* what) {
  std::set<std::string_view> seen;
  for (const Named& one : all) {
    if (one.name.empty() || one.name.find_first_of(" \t\r\n=,") != std::string::npos)
      fail(ErrorKind::kInternal, "program {}: {} name \"{}\" is not one word", program.name, what,
           one.name);
    if (!seen.insert(one.name).second)
      fail(ErrorKind::kInternal, "program {}: two {}s are named {}", program.name, what, one.name);
  }
}

void check_ids(const Program& program, const Node& node, const std::vector<int>& ids,
               std::size_t count, const char* what) {
  std::set<int> seen;
  for (int id : ids) {
    if (id < 0 || id >= static_cast<int>(count))
      fail(ErrorKind::kInternal, "program {}: node {} names {} {}, there are {}", program.name,
           node.name, what, id, count);
    if (!seen.insert(id).second)
      fail(ErrorKind::kInternal, "program {}: node {} names {} {} twice", program.name, node.name,
           what, id);
  }
}

// Updates of whole matrices leave no element out.
void check_by_matrix(const Program& program, const Unit& unit) {
  if (!unit.by_matrix) return;
  std::int64_t elements = 0;
  for (const Matrix& matrix : unit.matrices) elements += matrix.numel();
  if (elements != unit.numel || !unit.trainable || unit.tp_partial > 0)
    fail(ErrorKind::kInternal,
         "program {}: unit {} is updated by matrix: its matrices have {} of its {} elements{}{}",
         program.name, unit.name, elements, unit.numel, unit.trainable ? "" : ", it is frozen",
         unit.tp_partial > 0 ? ", tp ranks have parts of it" : "");
}

void check_units(const Program& program) {
  for (const Unit& unit : program.units) {
    if (unit.numel < 0 || unit.tp_partial < 0)
      fail(ErrorKind::kInternal, "program {}: unit {} has {} elements, {} of them partial",
           program.name, unit.name, unit.numel, unit.tp_partial);
    std::int64_t end = 0;
    for (const Matrix& matrix : unit.matrices) {
      if (matrix.offset < end || matrix.rows < 1 || matrix.cols < 1 ||
          matrix.cols > (unit.numel - matrix.offset) / matrix.rows)
        fail(ErrorKind::kInternal,
             "program {}: unit {}: a matrix of {} x {} at element {} overlaps another or leaves "
             "the unit's {}",
             program.name, unit.name, matrix.rows, matrix.cols, matrix.offset, unit.numel);
      end = matrix.end();
    }
    check_by_matrix(program, unit);
    if (unit.part_of < -1 || unit.part_of >= &unit - program.units.data())
      fail(ErrorKind::kInternal, "program {}: unit {} is a part of unit {}, not one before it",
           program.name, unit.name, unit.part_of);
    const UnitAxes& axes = unit.axes;
    if (!axes.replicas.contains(axes.shards) || !(axes.replicas & axes.partial).empty() ||
        (unit.tp_partial > 0 && axes.partial.empty()))
      fail(
          ErrorKind::kInternal,
          "program {}: unit {} is sharded over {}, equal on {} and partial on {}; shards are among "
          "replicas, partial elements are not equal",
          program.name, unit.name, mesh::print(axes.shards), mesh::print(axes.replicas),
          mesh::print(axes.partial));
    if (unit.ema_of == -1) continue;
    if (unit.ema_of < 0 || unit.ema_of >= &unit - program.units.data())
      fail(ErrorKind::kInternal, "program {}: unit {} follows unit {}, not one named before it",
           program.name, unit.name, unit.ema_of);
    const Unit& followed = program.units[unit.ema_of];
    if (unit.trainable || !followed.trainable || unit.numel != followed.numel ||
        unit.axes != followed.axes)
      fail(ErrorKind::kInternal,
           "program {}: unit {} follows {}: it must be frozen, the other trainable, both of one "
           "size and shared over the same axes",
           program.name, unit.name, followed.name);
  }
}

void check_exchanges(const Program& program) {
  for (const Node& node : program.nodes)
    for (const NodeExchange& one : node.exchanges)
      if (one.axes.empty() || one.bytes < 0 || one.forward < 0 || one.backward < 0 ||
          one.weight < 0 || (!one.part.empty() && find_part(node, one.part) == nullptr))
        fail(ErrorKind::kInternal,
             "program {}: node {} exchanges {} bytes over {}, {} + {} + {} times, of part \"{}\"",
             program.name, node.name, one.bytes, mesh::print(one.axes), one.forward, one.backward,
             one.weight, one.part);
}

void check_recomputation(const Program& program) {
  const GradientFlow flow = gradient_flow(program);
  std::map<int, const Node*> segments;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    std::int64_t saved = 0;
    for (const Part& part : node.parts) {
      saved += part.saved_bytes;
      if (part.name.empty() || part.name.find_first_of(" :=\n") != std::string::npos ||
          find_part(node, part.name) != &part || part.saved_bytes < 0 || saved > node.saved_bytes)
        fail(ErrorKind::kInternal,
             "program {}: node {} keeps {} bytes, {} in its parts up to \"{}\"", program.name,
             node.name, node.saved_bytes, saved, part.name);
    }
    if (node.segment == -1) continue;
    const Node* const first = segments.emplace(node.segment, &node).first->second;
    if (node.segment < 0 || node.loss || !flow.node_has_backward[n] || node.stage != first->stage ||
        node.chunk != first->chunk)
      fail(ErrorKind::kInternal,
           "program {}: node {} cannot be recomputed in segment {}, which begins with {}",
           program.name, node.name, node.segment, first->name);
  }
}

// A joint node has one gradient of its units a step, others one a micro-batch.
void check_joint(const Program& program) {
  for (const Node& node : program.nodes) {
    if (node.joint && !node.loss)
      fail(ErrorKind::kInternal, "program {}: node {} is joint and no loss", program.name,
           node.name);
    for (const Node& other : program.nodes)
      for (UnitId unit : node.units)
        if (node.joint && !other.joint && contains(other.units, unit))
          fail(ErrorKind::kInternal, "program {}: joint node {} shares unit {} with {}",
               program.name, node.name, program.units[unit].name, other.name);
  }
}

// Ranks of the pipeline begin in order; each has chunks 0, 1, ..., every one a range of nodes.
void check_chunks(const Program& program) {
  std::vector<int> chunks;  // of each stage, so far
  const Node* previous = nullptr;
  for (const Node& node : program.nodes) {
    const bool begins =
        previous == nullptr || previous->stage != node.stage || previous->chunk != node.chunk;
    previous = &node;
    if (!begins) continue;
    const auto stages = static_cast<int>(chunks.size());
    if (node.stage < 0 || node.stage > stages)
      fail(ErrorKind::kInternal,
           "program {}: node {} is on stage {}, but none before it on stage {}", program.name,
           node.name, node.stage, stages);
    if (node.stage == stages) chunks.push_back(0);
    const int next = chunks[node.stage]++;
    if (node.chunk != next)
      fail(ErrorKind::kInternal, "program {}: node {} begins chunk {} of stage {}, needs chunk {}",
           program.name, node.name, node.chunk, node.stage, next);
  }
}

// Values are written once and before they are read.
void check_flow(const Program& program) {
  std::vector<int> writer(program.values.size(), -1);
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    for (ValueId value : program.nodes[n].writes) {
      if (writer[value] >= 0)
        fail(ErrorKind::kInternal, "program {}: value {} is written by {} and {}", program.name,
             program.values[value].name, program.nodes[writer[value]].name, program.nodes[n].name);
      writer[value] = static_cast<int>(n);
    }
  for (std::size_t n = 0; n < program.nodes.size(); ++n)
    for (ValueId value : program.nodes[n].reads) {
      const Node& node = program.nodes[n];
      if (writer[value] >= static_cast<int>(n))
        fail(ErrorKind::kInternal, "program {}: node {} reads {} before it is written",
             program.name, node.name, program.values[value].name);
      if (writer[value] >= 0 && program.nodes[writer[value]].loss)
        fail(ErrorKind::kInternal, "program {}: node {} reads {}, a loss: losses end the program",
             program.name, node.name, program.values[value].name);
    }
}

}  // namespace

std::string_view name(Exchange exchange) {
  constexpr std::string_view kNames[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                         "send_recv"};
  return kNames[static_cast<std::size_t>(exchange)];
}

std::int64_t kept_bytes(const Node& node) {
  std::int64_t bytes = node.saved_bytes;
  for (const Part& part : node.parts)
    if (part.recomputed) bytes -= part.saved_bytes;
  return bytes;
}

std::int64_t work_bytes(const Node& node) {
  std::int64_t most = 0;
  for (const Part& part : node.parts)
    if (part.recomputed) most = std::max(most, part.work_bytes);
  return most;
}

double recompute_flops(const Node& node) {
  double flops = 0;
  for (const Part& part : node.parts)
    if (part.recomputed) flops += part.flops;
  return flops;
}

bool recomputes(const Node& node, std::string_view part) {
  const Part* const found = find_part(node, part);
  return found != nullptr && found->recomputed;
}

GradientFlow gradient_flow(const Program& program) {
  const std::vector<bool> before = trainable_before(program);
  std::vector<bool> behind(program.values.size(), false);
  GradientFlow flow{.value_has_grad = std::vector<bool>(program.values.size(), false),
                    .node_has_backward = std::vector<bool>(program.nodes.size(), false)};
  for (std::size_t n = program.nodes.size(); n-- > 0;) {
    const Node& node = program.nodes[n];
    if (node.no_grad) continue;
    bool to_loss = node.loss;
    for (ValueId value : node.writes) to_loss = to_loss || behind[value];
    if (!to_loss) continue;
    bool trains = reads_any(node, before);
    for (UnitId unit : node.units) trains = trains || program.units[unit].trainable;
    flow.node_has_backward[n] = trains;
    for (ValueId value : node.reads) behind[value] = program.values[value].differentiable;
  }
  for (std::size_t v = 0; v < program.values.size(); ++v)
    flow.value_has_grad[v] = before[v] && behind[v];
  return flow;
}

void check_program(const Program& program) {
  if (program.name.empty() || program.name.find_first_of(" \t\r\n") != std::string::npos)
    fail(ErrorKind::kInternal, "program name \"{}\" is not one word", program.name);
  check_names(program, program.values, "value");
  check_names(program, program.units, "unit");
  check_names(program, program.nodes, "node");
  for (const Node& node : program.nodes) {
    check_ids(program, node, node.reads, program.values.size(), "value");
    check_ids(program, node, node.writes, program.values.size(), "value");
    check_ids(program, node, node.units, program.units.size(), "unit");
    if (node.loss && (node.writes.size() != 1 || !program.values[node.writes[0]].differentiable))
      fail(ErrorKind::kInternal, "program {}: loss {} writes {} values, needs one differentiable",
           program.name, node.name, node.writes.size());
  }
  check_chunks(program);
  check_units(program);
  check_exchanges(program);
  check_recomputation(program);
  check_joint(program);
  check_flow(program);
}

}  // namespace trireme::plan
