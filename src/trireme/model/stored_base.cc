#include "trireme/model/stored_base.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/model/cut.h"
#include "trireme/model/node_types.h"

namespace trireme::model {
namespace {

// Parameters of the node, as it binds them, that its products read.
std::set<int> product_weights(const std::vector<Layer>& layers) {
  std::set<int> weights;
  for (const Layer& layer : layers)
    if (layer.op == Layer::Op::kColumns || layer.op == Layer::Op::kRows)
      weights.insert(layer.weights.begin(), layer.weights.end());
  return weights;
}

// Three dimensions are blocks of nf4 (ops/adapters/stored_weight.h).
ParamSpec stored(RowForm form, ParamSpec matrix) {
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  if (form == RowForm::kNf4 && columns % kNf4Block != 0)
    fail(ErrorKind::kUsage,
         "lora.base=nf4: {} has rows of {} values, not a multiple of {}; set lora.base=int8, or "
         "lora.base=full",
         matrix.name, columns, kNf4Block);
  ParamSpec param{.name = matrix.name, .shape = {rows, row_bytes(form, columns)}, .form = form};
  if (form == RowForm::kNf4) param.shape = {rows, columns / kNf4Block, row_bytes(form, kNf4Block)};
  param.matrix = std::make_shared<const ParamSpec>(std::move(matrix));
  return param;
}

class StoredNode {
 public:
  StoredNode(RowForm form, DType compute, std::size_t node, ModelSpec& spec)
      : form_(form), compute_(compute), node_(node), spec_(spec) {}

  void store() {
    const auto to = static_cast<plan::UnitId>(spec_.units.size());
    const plan::UnitId from = spec_.node_params[node_].front().unit;
    const std::set<int> weights = product_weights(spec_.layers[node_]);
    UnitSpec rest{.name = spec_.units[from].name, .params = {}};
    UnitSpec bytes{.name = rest.name + (form_ == RowForm::kNf4 ? ".nf4" : ".int8"), .params = {}};
    std::vector<ParamRef>& refs = spec_.node_params[node_];
    for (std::size_t i = 0; i < refs.size(); ++i) {
      if (refs[i].unit != from) continue;
      const bool moves = weights.contains(static_cast<int>(i));
      UnitSpec& of = moves ? bytes : rest;
      ParamSpec& param = spec_.units[from].params[static_cast<std::size_t>(refs[i].param)];
      if (moves) widest_ = std::max(widest_, param.numel());
      of.params.push_back(moves ? stored(form_, std::move(param)) : std::move(param));
      refs[i] = {.unit = moves ? to : from, .param = static_cast<int>(of.params.size()) - 1};
    }
    add(from, std::move(rest), std::move(bytes));
    declare(from);
  }

 private:
  void add(plan::UnitId from, UnitSpec rest, UnitSpec bytes) {
    plan::Unit planned = spec_.program.units[from];
    planned.name = bytes.name;
    planned.part_of = from;
    planned.type = DType::kU8;
    planned.numel = bytes.numel();
    planned.matrices.clear();
    spec_.program.units[from].numel = rest.numel();
    spec_.program.units[from].matrices = matrices_of(rest);
    spec_.units[from] = std::move(rest);
    spec_.units.push_back(std::move(bytes));
    spec_.program.units.push_back(std::move(planned));
    std::vector<plan::UnitId>& units = spec_.program.nodes[node_].units;
    units.insert(std::ranges::find(units, from) + 1,
                 static_cast<plan::UnitId>(spec_.units.size()) - 1);
  }

  // One matrix at a time is in the type of its product.
  void declare(plan::UnitId from) {
    const DType type = spec_.program.units[from].type.value_or(compute_);
    const std::int64_t values = widest_ * static_cast<std::int64_t>(size_of(type));
    plan::NodeWork& work = spec_.program.nodes[node_].work;
    for (std::int64_t* bytes : {&work.forward, &work.passing, &work.backward, &work.input})
      *bytes += values;
  }

  RowForm form_;
  DType compute_;
  std::size_t node_;
  ModelSpec& spec_;
  std::int64_t widest_ = 0;
};

}  // namespace

void store_base(const config::Job& job, ModelSpec& spec) {
  if (job.lora.base == RowForm::kFull) return;
  for (std::size_t node = 0; node < spec.program.nodes.size(); ++node) {
    if (spec.adapted[node].empty()) continue;
    const plan::UnitId own = spec.node_params[node].front().unit;
    if (!spec.program.units[own].trainable)
      StoredNode(job.lora.base, job.precision.compute, node, spec).store();
  }
}

}  // namespace trireme::model
