// A model outside any plan: parameters allocated and drawn from its spec, bound, and run node by node. Of a
// tensor-parallel rank its part, drawn by itself.
#pragma once

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/block.h"
#include "trireme/exec/units/initial_values.h"

namespace trireme::harness {

// Bytes of the node's input where linear layers that train read it itself: their weights keep it until their half of a
// backward. A test that holds the input does not see it there.
inline std::int64_t kept_input(const exec::Model& model, std::size_t node) {
  const model::ModelSpec& spec = model.spec;
  const plan::Node& each = spec.program.nodes[node];
  const bool own = spec.program.units[each.units[0]].trainable;
  const bool kept = std::ranges::any_of(spec.layers[node], [&](const model::Layer& layer) {
    return layer.op == model::Layer::Op::kColumns && layer.reads[0] == 0 &&
           (own || std::ranges::any_of(layer.weights, [&](int weight) {
              return std::ranges::count(spec.adapted[node], weight) > 0;
            }));
  });
  return kept ? spec.program.values[each.reads[0]].bytes : 0;
}

class BoundModel {
 public:
  BoundModel(exec::Model model, at::ScalarType type, std::uint64_t seed = 1, int tp_rank = 0,
             int tp = 1)
      : model_(std::move(model)) {
    std::vector<std::vector<at::Tensor>> units;
    for (const model::UnitSpec& unit : model_.spec.units) {
      const bool trains = model_.spec.program.units[units.size()].trainable;
      const std::optional<DType> own = model_.spec.program.units[units.size()].type;
      units.emplace_back();
      for (const model::ParamSpec& param : unit.params) {
        model::ParamSpec here = param;
        here.shape = model::local_param(param, tp_rank, tp).shape;
        units.back().push_back(
            draw(here, seed).to(own ? comm::scalar_type(*own) : type).set_requires_grad(trains));
        params_.emplace_back(param.name, units.back().back());
      }
    }
    for (std::size_t node = 0; node < model_.blocks.size(); ++node) {
      std::vector<at::Tensor> bound;
      for (const model::ParamRef& ref : model_.spec.node_params[node])
        bound.push_back(units[ref.unit][ref.param]);
      model_.blocks[node]->bind(std::move(bound));
    }
  }

  const exec::Model& model() const { return model_; }
  exec::Block& block(std::size_t node) { return *model_.blocks[node]; }
  const std::vector<std::pair<std::string, at::Tensor>>& params() const { return params_; }

  // Activations after `nodes` nodes of the chain; positions within documents may be undefined.
  at::Tensor activations(const at::Tensor& tokens, std::size_t nodes,
                         const exec::BlockContext& context = {}, const at::Tensor& positions = {}) {
    at::Tensor x = tokens;
    for (std::size_t node = 0; node < nodes; ++node) {
      std::vector<at::Tensor> inputs = {x};
      if (positions.defined()) inputs.push_back(positions);
      x = model_.blocks[node]->forward(inputs, at_node(context, node))[0];
    }
    return x;
  }
  // The summed loss, as one autograd graph.
  at::Tensor loss(const at::Tensor& tokens, const at::Tensor& targets,
                  const exec::BlockContext& context = {}, const at::Tensor& positions = {}) {
    const std::size_t head = model_.blocks.size() - 1;
    return model_.blocks[head]->forward({activations(tokens, head, context, positions), targets},
                                        at_node(context, head))[0];
  }

 private:
  static exec::BlockContext at_node(exec::BlockContext context, std::size_t node) {
    context.node = static_cast<int>(node);
    return context;
  }
  static at::Tensor draw(const model::ParamSpec& param, std::uint64_t seed) {
    if (param.norms_of) return exec::initial_norms(param, seed).narrow(0, 0, param.numel());
    return exec::initial_values(param, 0, param.numel(), exec::initial_generator(param, seed))
        .reshape(param.shape);
  }

  exec::Model model_;
  std::vector<std::pair<std::string, at::Tensor>> params_;
};

}  // namespace trireme::harness
