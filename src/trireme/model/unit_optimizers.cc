#include "trireme/model/unit_optimizers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/config/resolve/matrix_optimizer.h"
#include "trireme/model/cut.h"
#include "trireme/model/param_groups.h"

namespace trireme::model {
namespace {

using config::Optimizer;

bool is_matrix(const ParamSpec& param) { return param.shape.size() == 2; }

// Names of the weights of linear layers of blocks, without adapters.
std::set<std::string> layer_weights(const ModelSpec& spec) {
  std::set<std::string> names;
  for (std::size_t node = 0; node < spec.layers.size(); ++node)
    for (const Layer& layer : spec.layers[node]) {
      if (layer.op != Layer::Op::kColumns && layer.op != Layer::Op::kRows) continue;
      for (const int weight : layer.weights) {
        const ParamRef& ref = spec.node_params[node][weight];
        names.insert(spec.units[ref.unit].params[ref.param].name);
      }
    }
  return names;
}

Optimizer optimizer_of(const config::Optim& optim, const UnitSpec& unit, const ParamSpec& param,
                       const std::set<std::string>& inner) {
  const config::ParamGroup* const group = group_of(optim, unit, param);
  const bool named = group != nullptr && group->name;
  const Optimizer own = named ? *group->name : optim.name;
  if (!config::info(own).by_matrix()) return own;
  return is_matrix(param) && (named || inner.contains(param.name))
             ? own
             : config::elementwise(optim).optimizer;
}

// Fused layers are matrices one below the other.
std::vector<plan::Matrix> whole_matrices(const UnitSpec& unit) {
  std::vector<plan::Matrix> matrices;
  std::int64_t offset = 0;
  for (const ParamSpec& param : unit.params) {
    std::vector<std::int64_t> rows = {param.shape[0]};
    if (param.cut.dim == 0 && param.cut.segments.size() > 1) {
      rows.clear();
      for (const CutSegment& segment : param.cut.segments)
        rows.push_back(segment.granules * segment.size);
    }
    for (const std::int64_t count : rows) {
      matrices.push_back({.offset = offset, .rows = count, .cols = param.shape[1]});
      offset += matrices.back().numel();
    }
  }
  return matrices;
}

class Division {
 public:
  Division(const config::Optim& optim, int tp, ModelSpec& spec)
      : optim_(optim), tp_(tp), spec_(spec), inner_(layer_weights(spec)) {}

  void unit(plan::UnitId id) {
    struct Part {
      std::vector<std::string> names{};
      std::int64_t elements = 0;
    };
    std::map<Optimizer, Part> parts;
    for (const ParamSpec& param : spec_.units[id].params) {
      Part& part = parts[optimizer_of(optim_, spec_.units[id], param, inner_)];
      part.names.push_back(param.name);
      part.elements += param.numel();
    }
    const Optimizer most = std::ranges::max_element(parts, {}, [](const auto& one) {
                             return one.second.elements;
                           })->first;
    for (const auto& [own, part] : parts)
      if (own != most) divide(id, own, part.names);
    finish(id, most);
  }

 private:
  // Followers have the parameters of what they follow, in its order and with other names.
  void divide(plan::UnitId id, Optimizer own, const std::vector<std::string>& names) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < spec_.units[id].params.size(); ++i)
      if (std::ranges::find(names, spec_.units[id].params[i].name) != names.end())
        places.push_back(i);
    const auto count = static_cast<plan::UnitId>(spec_.units.size());
    const plan::UnitId part = move(id, own, places);
    finish(part, own);
    for (plan::UnitId other = 0; other < count; ++other)
      if (spec_.program.units[other].ema_of == id)
        spec_.program.units[move(other, own, places)].ema_of = part;
  }

  plan::UnitId move(plan::UnitId from, Optimizer own, const std::vector<std::size_t>& places) {
    const auto to = static_cast<plan::UnitId>(spec_.units.size());
    std::vector<ParamRef> refs;  // of each parameter of `from`
    UnitSpec rest{.name = spec_.units[from].name, .params = {}};
    UnitSpec part{.name = rest.name + "." + config::info(own).key, .params = {}};
    for (std::size_t i = 0; i < spec_.units[from].params.size(); ++i) {
      const bool moves = std::ranges::binary_search(places, i);
      UnitSpec& of = moves ? part : rest;
      refs.push_back({.unit = moves ? to : from, .param = static_cast<int>(of.params.size())});
      of.params.push_back(std::move(spec_.units[from].params[i]));
    }
    plan::Unit planned = spec_.program.units[from];
    planned.name = part.name;
    planned.part_of = from;
    spec_.program.units.push_back(std::move(planned));
    spec_.units[from] = std::move(rest);
    spec_.units.push_back(std::move(part));
    for (const plan::UnitId unit : {from, to}) measure(unit);
    rebind(from, to, refs);
    return to;
  }

  void measure(plan::UnitId id) {
    plan::Unit& unit = spec_.program.units[id];
    unit.numel = largest_numel(spec_.units[id], tp_);
    unit.tp_partial = unit.trainable ? partial_numel(spec_.units[id], tp_) : 0;
    unit.matrices = tp_ == 1 ? matrices_of(spec_.units[id]) : std::vector<plan::Matrix>();
  }

  void rebind(plan::UnitId from, plan::UnitId to, const std::vector<ParamRef>& refs) {
    for (std::size_t n = 0; n < spec_.program.nodes.size(); ++n) {
      std::vector<plan::UnitId>& units = spec_.program.nodes[n].units;
      if (std::ranges::find(units, from) == units.end()) continue;
      for (ParamRef& ref : spec_.node_params[n])
        if (ref.unit == from) ref = refs[ref.param];
      const auto uses = [&](plan::UnitId unit) {
        return std::ranges::find(spec_.node_params[n], unit, &ParamRef::unit) !=
               spec_.node_params[n].end();
      };
      const auto place = std::ranges::find(units, from);
      if (uses(to)) units.insert(place + 1, to);
      if (!uses(from)) std::erase(units, from);
    }
  }

  void finish(plan::UnitId id, Optimizer own) {
    const config::OptimizerInfo& info = config::info(own);
    plan::Unit& unit = spec_.program.units[id];
    spec_.units[id].optimizer = own;
    if (info.states != config::elementwise(optim_).states) unit.states = info.states;
    if (!info.by_matrix()) return;
    unit.by_matrix = true;
    unit.matrices = whole_matrices(spec_.units[id]);
  }

  const config::Optim& optim_;
  int tp_;
  ModelSpec& spec_;
  std::set<std::string> inner_;
};

void check_groups(const config::Optim& optim, const ModelSpec& spec) {
  for (const config::ParamGroup& group : optim.groups) {
    if (!group.name || !config::info(*group.name).by_matrix()) continue;
    const bool any = std::ranges::any_of(spec.units, [&](const UnitSpec& unit) {
      return std::ranges::any_of(unit.params, [&](const ParamSpec& param) {
        return is_matrix(param) && group_of(optim, unit, param) == &group;
      });
    });
    if (!any)
      fail(ErrorKind::kUsage,
           "optim.groups: \"{}\" has name={}, which updates matrices, and matches none. Name "
           "another optimizer, or a pattern of weights.",
           group.match, config::info(*group.name).key);
  }
}

}  // namespace

void set_optimizers(const config::Optim& optim, int tp, ModelSpec& spec) {
  check_groups(optim, spec);
  Division division(optim, tp, spec);
  const auto units = static_cast<plan::UnitId>(spec.units.size());
  for (plan::UnitId id = 0; id < units; ++id)
    if (spec.program.units[id].trainable) division.unit(id);
  if (config::info(optim.name).by_matrix() &&
      std::ranges::none_of(spec.program.units, &plan::Unit::by_matrix))
    fail(ErrorKind::kUsage,
         "optim.name={} updates weights of linear layers in blocks, and none of them trains here; "
         "set another optimizer, or give parameters this one in optim.groups",
         config::info(optim.name).key);
}

std::string_view undivided_name(const UnitSpec& unit) {
  std::string_view name = unit.name;
  const std::string_view key = config::info(unit.optimizer).key;
  if (name.ends_with(key) && name.size() > key.size() && name[name.size() - key.size() - 1] == '.')
    name.remove_suffix(key.size() + 1);
  return name;
}

}  // namespace trireme::model
