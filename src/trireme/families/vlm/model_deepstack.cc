#include "trireme/families/vlm/model_deepstack.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "trireme/families/vlm/model_projector.h"
#include "trireme/model/families/encoder.h"

namespace trireme::model {
namespace {

// The projector's parameters under names of their own.
std::vector<ParamSpec> params_of(const config::Job& job, std::size_t layer) {
  std::vector<ParamSpec> params = projector_params(job, true);
  for (ParamSpec& param : params)
    param.name.replace(0, kProjectorPrefix.size(), fmt::format("deepstack_projectors.{}.", layer));
  return params;
}

}  // namespace

std::vector<plan::ValueId> add_deepstack(Graph& graph, const config::Job& job, std::int64_t tiles,
                                         const std::vector<plan::ValueId>& layers) {
  std::vector<plan::ValueId> projected;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const std::string name = fmt::format("deepstack.{}", layer);
    const plan::UnitId unit = graph.unit({.name = name, .params = params_of(job, layer)});
    projected.push_back(graph.node({.name = name, .reads = {layers[layer]}},
                                   projector_work(graph, job, tiles, tower(job.vision, 1).tokens),
                                   {unit},
                                   {projected_tokens(graph, job, tiles, name + ".tokens")})[0]);
  }
  return projected;
}

plan::ValueId add_seen(Graph& graph, const config::Job& job, std::size_t layer, plan::ValueId x,
                       plan::ValueId visual, plan::ValueId rows) {
  const std::string name = fmt::format("seen.{}", layer);
  plan::Value sum = graph.spec().program.values[x];
  sum.name = name;
  // The rows at the tokens, and in backward their gradients.
  const plan::NodeWork work{
      .forward = sum.bytes, .passing = sum.bytes, .backward = sum.bytes, .input = sum.bytes};
  return graph.node({.name = name, .reads = {x, visual, rows}, .work = work},
                    {.saved_bytes = job.run.micro_batch * job.model.seq_len * 9}, {},
                    {std::move(sum)})[0];
}

}  // namespace trireme::model
