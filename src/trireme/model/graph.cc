#include "trireme/model/graph.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/model/spread.h"

namespace trireme::model {

Graph::Graph(std::string name, const PerRank& rank, const Training& training)
    : rank_(rank), training_(training), types_(rank.compute, rank.node_types) {
  spec_.program.name = std::move(name);
}

plan::ValueId Graph::value(plan::Value value, bool reached) {
  spec_.program.values.push_back(std::move(value));
  reached_.push_back(reached);
  return static_cast<plan::ValueId>(spec_.program.values.size()) - 1;
}

plan::ValueId Graph::input(std::string name, std::int64_t bytes) {
  return value({.name = std::move(name), .bytes = bytes, .differentiable = false}, false);
}

plan::UnitId Graph::unit(UnitSpec unit) {
  const bool trains = training_.trains(unit.name);
  return this->unit(std::move(unit), trains);
}

plan::UnitId Graph::unit(UnitSpec unit, bool trains) {
  spec_.program.units.push_back(
      {.name = unit.name,
       .numel = largest_numel(unit, rank_.tp),
       .trainable = trains,
       .tp_partial = trains ? partial_numel(unit, rank_.tp) : 0,
       .matrices = rank_.tp == 1 ? matrices_of(unit) : std::vector<plan::Matrix>()});
  spec_.units.push_back(std::move(unit));
  return static_cast<plan::UnitId>(spec_.units.size()) - 1;
}

plan::UnitId Graph::average(plan::UnitId followed, std::string name, std::string_view prefix,
                            std::string_view followed_prefix) {
  UnitSpec copy = spec_.units[followed];
  copy.name = std::move(name);
  for (ParamSpec& param : copy.params) {
    TRIREME_CHECK(param.name.starts_with(followed_prefix), "{} does not begin with {}", param.name,
                  followed_prefix);
    param.name = std::string(prefix) + param.name.substr(followed_prefix.size());
  }
  const plan::UnitId id = unit(std::move(copy), false);
  // A student that does not train is not averaged.
  if (spec_.program.units[followed].trainable) spec_.program.units[id].ema_of = followed;
  return id;
}

std::vector<plan::ValueId> Graph::node(plan::Node node, const Work& work,
                                       const std::vector<plan::UnitId>& units,
                                       std::vector<plan::Value> writes) {
  bool reached =
      std::ranges::any_of(node.reads, [&](plan::ValueId id) { return this->reached(id); });
  for (const plan::UnitId unit : units) reached = reached || spec_.program.units[unit].trainable;
  reached = reached && !node.no_grad;
  node.saved_bytes = work.saved_bytes;
  node.parts = work.parts;
  node.flops = work.flops;
  node.backward_flops = work.backward_flops;
  node.split = work.split;
  std::vector<plan::ValueId> ids;
  for (plan::Value& one : writes) {
    const bool differentiable = one.differentiable;
    ids.push_back(value(std::move(one), reached && differentiable));
  }
  node.writes = ids;
  spec_.program.nodes.push_back(std::move(node));
  spec_.row_wise.push_back(false);
  spec_.node_params.emplace_back();
  spec_.adapted.emplace_back();
  spec_.layers.emplace_back();
  spec_.operations.emplace_back();
  for (const plan::UnitId unit : units) bind_all(unit);
  return ids;
}

void Graph::spread_rows() { spec_.row_wise.back() = true; }

void Graph::computes(std::vector<Operation> operations) {
  spec_.operations.back() = std::move(operations);
}

void Graph::bind_all(plan::UnitId unit) {
  spec_.program.nodes.back().units.push_back(unit);
  const std::size_t params = spec_.units[unit].params.size();
  for (std::size_t i = 0; i < params; ++i) bind({.unit = unit, .param = static_cast<int>(i)});
}

void Graph::bind(ParamRef param) {
  std::vector<plan::UnitId>& units = spec_.program.nodes.back().units;
  if (std::ranges::find(units, param.unit) == units.end()) units.push_back(param.unit);
  spec_.node_params.back().push_back(param);
}

void Graph::adapt(std::vector<int> weights, UnitSpec adapters) {
  if (weights.empty()) return;
  bind_all(unit(std::move(adapters), true));
  spec_.adapted.back() = std::move(weights);
  for (const plan::ValueId id : spec_.program.nodes.back().writes) reached_[id] = true;
}

ModelSpec Graph::build() && {
  types_.apply(spec_.program);
  share_rows(spec_.program, spec_.row_wise, reached_, rank_);
  plan::check_program(spec_.program);
  return std::move(spec_);
}

}  // namespace trireme::model
