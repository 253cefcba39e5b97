// A model on one rank, run node by node as one autograd graph, with all of its values by name.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trireme/comm/tensor_buffer.h"
#include "trireme/config/job.h"
#include "trireme/exec/block.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/spec.h"

namespace trireme::harness {

// Runs a model node by node as one autograd graph, with parameters of any values.
class WholeModel {
 public:
  using Values = std::function<at::Tensor(const model::ParamSpec&)>;
  WholeModel(const config::Job& job, const Values& value_of) : model_(blocks::build(job)) {
    const at::ScalarType type = comm::scalar_type(job.precision.compute);
    std::vector<std::vector<at::Tensor>> units;
    for (std::size_t u = 0; u < model_.spec.units.size(); ++u) {
      const auto own = model_.spec.program.units[u].type;
      units.emplace_back();
      for (const model::ParamSpec& param : model_.spec.units[u].params) {
        const at::Tensor value = value_of(param);
        units.back().push_back(
            value.to(own ? comm::scalar_type(*own) : type).set_requires_grad(true));
        params[param.name] = units.back().back();
      }
    }
    for (std::size_t n = 0; n < model_.blocks.size(); ++n) {
      std::vector<at::Tensor> bound;
      for (const model::ParamRef& ref : model_.spec.node_params[n])
        bound.push_back(units[ref.unit][ref.param]);
      model_.blocks[n]->bind(std::move(bound));
    }
  }

  // Of a batch, by value's name; counts are added to `counts`.
  std::map<std::string, at::Tensor> run(std::vector<at::Tensor> inputs) {
    std::vector<at::Tensor> values = std::move(inputs);
    values.resize(model_.spec.program.values.size());
    for (std::size_t n = 0; n < model_.blocks.size(); ++n) {
      const plan::Node& node = model_.spec.program.nodes[n];
      std::vector<at::Tensor> reads;
      for (const plan::ValueId id : node.reads) reads.push_back(values[id]);
      const exec::BlockContext context{.node = static_cast<int>(n),
                                       .counts = node.loss ? &counts : nullptr};
      const auto written = model_.blocks[n]->forward(reads, context);
      for (std::size_t i = 0; i < written.size(); ++i) values[node.writes[i]] = written[i];
    }
    std::map<std::string, at::Tensor> named;
    for (std::size_t v = 0; v < values.size(); ++v)
      named[model_.spec.program.values[v].name] = values[v];
    return named;
  }

  static at::Tensor loss(const std::map<std::string, at::Tensor>& values) {
    at::Tensor sum;
    for (const auto& [name, value] : values)
      if (name == "loss" || name.starts_with("ratio_loss"))
        sum = sum.defined() ? sum + value : value;
    return sum;
  }

  const exec::Model& model() const { return model_; }

  exec::Counts counts{3};
  std::map<std::string, at::Tensor> params;

 private:
  exec::Model model_;
};

}  // namespace trireme::harness
