#include "trireme/planner/cost/program_kernels.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/model/families/describe.h"
#include "trireme/planner/cost/families.h"

namespace trireme::planner {
namespace {

using model::Operation;

// What is looked up or convolved is no product.
bool is_linear(const model::ParamSpec& param) {
  return param.shape.size() > 1 && param.shape.front() > 1 && param.name.ends_with(".weight") &&
         param.name.find("embedding") == param.name.npos &&
         param.name.find("conv1d") == param.name.npos;
}

bool is_norm(const model::ParamSpec& param) {
  return param.shape.size() == 1 && param.name.ends_with(".weight");
}

}  // namespace

ProgramKernels::ProgramKernels(const config::Job& job, const model::ModelSpec& model,
                               const Practice& practice)
    : job_(job),
      model_(model),
      practice_(practice),
      flow_(plan::gradient_flow(model.program)),
      shares_(job),
      types_(job.precision.compute, job.precision.nodes) {
  // Small operators belong to nodes.
  const bool alike = family_prices(job.model.family).small_operators == nullptr;
  std::vector<std::size_t> kinds;
  for (std::size_t n = 0; n < model_.program.nodes.size(); ++n) {
    const std::string& name = model_.program.nodes[n].name;
    nodes_.emplace(name, n);
    const auto same = [&](std::size_t other) {
      return alike && !model_.operations[n].empty() &&
             model_.operations[n] == model_.operations[other] && type_of(n) == type_of(other) &&
             shares_.of(name) == shares_.of(model_.program.nodes[other].name);
    };
    const auto kind = std::ranges::find_if(kinds, same);
    like_.push_back(kind != kinds.end() ? *kind : n);
    if (kind == kinds.end()) kinds.push_back(n);
  }
}

std::size_t ProgramKernels::index_of(const std::string& node) const {
  const auto found = nodes_.find(node);
  TRIREME_CHECK(found != nodes_.end(), "model {} has no node {}", model_.program.name, node);
  return found->second;
}

DType ProgramKernels::type_of(std::size_t node) const {
  const plan::Node& own = model_.program.nodes[node];
  for (const plan::UnitId unit : own.units)
    if (const auto& type = model_.program.units[unit].type) return *type;
  return types_.of(own.name);
}

NodeKernels ProgramKernels::of(const std::string& node) const {
  const std::size_t index = index_of(node);
  const NodeNumbers numbers{.type = type_of(index),
                            .between = job_.precision.compute,
                            .sums = job_.precision.grads.value(),
                            .share = shares_.of(node),
                            .spread = job_.parallel.cp > 1};
  const std::vector<Operation>& operations = model_.operations[index];
  NodeKernels kernels =
      operations.empty() ? of_matrices(index, numbers) : lower(operations, practice_, numbers);
  const auto small_operators = family_prices(job_.model.family).small_operators;
  if (practice_.attention != AttentionKernel::kTiles || small_operators == nullptr) return kernels;
  SmallOperators small = small_operators(job_, node);
  std::ranges::move(small.forward, std::back_inserter(kernels.forward));
  std::ranges::move(small.backward, std::back_inserter(kernels.input));
  return kernels;
}

std::vector<ProgramKernels::Linear> ProgramKernels::linear_layers(std::size_t node) const {
  std::vector<Linear> layers;
  for (const model::ParamRef& ref : model_.node_params[node]) {
    const auto unit = static_cast<std::size_t>(ref.unit);
    const model::ParamSpec& param = model_.units[unit].params[ref.param];
    if (!is_linear(param)) continue;
    const model::LocalParam local = model::local_param(param, 0, job_.parallel.tp);
    const auto out = static_cast<double>(local.shape.front());
    layers.push_back({.in = static_cast<double>(local.numel()) / out,
                      .out = out,
                      .trains = model_.program.units[unit].trainable});
  }
  return layers;
}

bool ProgramKernels::reached(const plan::Node& node) const {
  return std::ranges::any_of(node.reads,
                             [&](plan::ValueId id) { return flow_.value_has_grad[id]; });
}

double ProgramKernels::moved(const plan::Node& node) const {
  auto moved = static_cast<double>(node.saved_bytes);
  const auto add = [&](const std::vector<plan::ValueId>& values) {
    for (const plan::ValueId id : values)
      moved += static_cast<double>(model_.program.values[id].bytes);
  };
  add(node.reads);
  if (!node.loss) add(node.writes);
  return moved;
}

double ProgramKernels::flops_of(const std::string& node) const {
  const std::size_t index = index_of(node);
  const double flops = model_.program.nodes[index].flops, share = shares_.of(node);
  if (share == 1 || shares_.counted()) return flops;
  double products = 0;
  for (const Operation& one : model_.operations[index])
    if (one.what == Operation::What::kProduct) products += 2 * one.rows * one.in * one.out();
  // All else of blocks is attention, whose queries and keys are fewer.
  if (products > 0) return share * products + share * share * (flops - products);
  return linear_layers(index).empty() ? flops : share * flops;
}

NodeKernels ProgramKernels::of_matrices(std::size_t index, const NodeNumbers& numbers) const {
  const plan::Node& node = model_.program.nodes[index];
  const std::vector<Linear> layers = linear_layers(index);
  const Math math = math_of(numbers.type);
  double weights = 0, trained = 0, norms = 0, biases = 0;
  for (const Linear& layer : layers) weights += layer.in * layer.out;
  for (const model::ParamRef& ref : model_.node_params[index]) {
    const auto unit = static_cast<std::size_t>(ref.unit);
    const model::ParamSpec& param = model_.units[unit].params[ref.param];
    norms += is_norm(param);
    if (param.shape.size() == 1 && model_.program.units[unit].trainable)
      biases += static_cast<double>(model::local_param(param, 0, job_.parallel.tp).numel());
  }
  const double counted = shares_.counted() ? 1 : numbers.share;
  const double rows = weights > 0 ? node.flops * counted / (2 * weights) : 0;

  NodeKernels kernels;
  const bool flows = reached(node);
  bool first = !flows;  // what the first layer reads has no gradient then
  if (rows > 0)
    for (const Linear& layer : layers) {
      kernels.forward.push_back(product(math, rows, layer.in, layer.out));
      if (!std::exchange(first, false))
        kernels.input.push_back(input_gradient(math, rows, layer.in, layer.out));
      if (!layer.trains) continue;
      kernels.weight.push_back(weight_gradient(math, rows, layer.in, layer.out));
      trained += layer.in * layer.out;
    }
  if (node.loss && weights == 0 && node.flops > 0) {
    kernels.forward.push_back(attention(math, node.flops));
    kernels.input.push_back(times(kernels.forward.back(), 2));
  }
  const double bytes = numbers.share * moved(node), operations = 2 + 2 * norms;
  kernels.forward.push_back(stream(bytes, operations));
  if (flows || layers.size() > 1) kernels.input.push_back(stream(2 * bytes, 2 * operations));
  if (biases > 0)
    kernels.weight.push_back(stream(rows * static_cast<double>(size_of(numbers.type)) * biases, 4));
  if (trained > 0) kernels.weight.push_back(added(practice_, numbers, trained));
  return typed(std::move(kernels), math);
}

model::ModelSpec priced_model(config::Job job) {
  job.recompute = {};
  job.parallel.costs.clear();
  return model::describe(job);
}

}  // namespace trireme::planner
