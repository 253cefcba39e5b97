#include "trireme/model/account/flops.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/head_width.h"
#include "trireme/model/training.h"

namespace trireme::model {

std::string_view name(FlopsConvention convention) {
  switch (convention) {
    case FlopsConvention::kNanoGpt: return "6N + 12LHS";
    case FlopsConvention::kTorchtitan: return "6(N - embedding) + 12LHS";
    case FlopsConvention::kLlmC: return "6N + 6LCT";
    case FlopsConvention::kMegatron: return "Megatron, causal half";
  }
  return "";
}

namespace {

// The matrix of which bytes are the stored form.
const ParamSpec& of_values(const ParamSpec& param) { return param.matrix ? *param.matrix : param; }

}  // namespace

ParameterCount count_parameters(const ModelSpec& spec) {
  ParameterCount count;
  for (const UnitSpec& unit : spec.units)
    if (!holds_adapters(unit.name))
      for (const ParamSpec& param : unit.params) count.total += of_values(param).numel();
  for (std::size_t n = 0; n < spec.node_params.size(); ++n) {
    const bool looks_up = spec.program.nodes[n].looks_up;
    for (std::size_t i = 0; i < spec.node_params[n].size(); ++i) {
      const ParamRef& ref = spec.node_params[n][i];
      const UnitSpec& unit = spec.units[static_cast<std::size_t>(ref.unit)];
      const ParamSpec& param = of_values(unit.params[static_cast<std::size_t>(ref.param)]);
      if (looks_up)
        (i == 0 ? count.embedding : count.positions) += param.numel();
      else if (param.shape.size() == 2 && !holds_adapters(unit.name))
        count.products += param.numel();
    }
  }
  return count;
}

double flops_per_token(const ModelSpec& spec, const config::Model& model,
                       FlopsConvention convention) {
  const ParameterCount count = count_parameters(spec);
  const double attention =
      static_cast<double>(model.layers * config::attended_width(model) * model.seq_len);
  switch (convention) {
    case FlopsConvention::kNanoGpt:
      return 6.0 * static_cast<double>(count.total - count.positions) + 12 * attention;
    case FlopsConvention::kTorchtitan: {
      const std::int64_t lookups = count.positions + (model.tied ? 0 : count.embedding);
      return 6.0 * static_cast<double>(count.total - lookups) + 12 * attention;
    }
    case FlopsConvention::kLlmC: return 6.0 * static_cast<double>(count.total) + 6 * attention;
    case FlopsConvention::kMegatron:
      return 6.0 * static_cast<double>(count.products) + 6 * attention;
  }
  return 0;
}

namespace {

// Share of a forward, without recomputed parts.
double backward_share(const plan::Node& node) {
  constexpr double kBoth = 2;  // gradients of what products read, and of their weights
  return node.backward_flops && node.flops > 0 ? *node.backward_flops / node.flops : kBoth;
}

// How many ranks of a tp and a cp group compute the same, of `flops` on each where one rank alone has `alone`. Ranks
// that share unevenly have a little more than their part.
double replicas_of(double flops, double alone, const PerRank& rank) {
  const int cp = std::max(rank.cp, rank.spread);
  double nearest = 1;
  if (alone <= 0 || flops <= 0) return nearest;
  const double times = flops * rank.tp * cp / alone;
  for (const int same : {rank.tp, cp, rank.tp * cp})
    if (std::abs(std::log(times / same)) < std::abs(std::log(times / nearest))) nearest = same;
  return nearest;
}

}  // namespace

std::vector<double> flop_factors(const ModelSpec& spec) {
  const plan::GradientFlow flow = plan::gradient_flow(spec.program);
  std::vector<double> factors;
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n)
    factors.push_back((flow.node_has_backward[n] ? 1 + backward_share(spec.program.nodes[n]) : 1) /
                      (spec.replicas.empty() ? 1 : spec.replicas[n]));
  return factors;
}

void set_model_flops(ModelSpec& spec, const plan::Program& alone, std::int64_t samples,
                     std::int64_t micro_batches, const PerRank& rank) {
  TRIREME_CHECK(alone.nodes.size() == spec.program.nodes.size(),
                "{} nodes on one rank, {} on several", alone.nodes.size(),
                spec.program.nodes.size());
  const plan::GradientFlow flow = plan::gradient_flow(alone);
  spec.replicas.clear();
  double flops = 0;
  for (std::size_t n = 0; n < alone.nodes.size(); ++n) {
    const plan::Node& node = alone.nodes[n];
    spec.replicas.push_back(replicas_of(spec.program.nodes[n].flops, node.flops, rank));
    const double back = flow.node_has_backward[n] ? backward_share(node) : 0;
    flops += (1 + back) * node.flops / static_cast<double>(node.joint ? micro_batches : 1);
  }
  spec.flops_per_token = flops / static_cast<double>(samples * spec.sample_tokens);
}

}  // namespace trireme::model
