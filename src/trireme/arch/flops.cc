#include "trireme/arch/flops.h"

#include <algorithm>

#include "trireme/config/head_width.h"
#include "trireme/plan/placement.h"

namespace trireme::arch {

std::string_view name(FlopsConvention convention) {
  switch (convention) {
    case FlopsConvention::kNanoGpt: return "6N + 12LHS";
    case FlopsConvention::kTorchtitan: return "6(N - embedding) + 12LHS";
    case FlopsConvention::kLlmC: return "6N + 6LCT";
    case FlopsConvention::kMegatron: return "Megatron, causal half";
  }
  return "";
}

ParameterCount count_parameters(const config::Model& model) {
  const bool gpt = model.family == config::Family::kGpt;
  const std::int64_t d = model.hidden;
  const std::int64_t width = config::head_width(model), q = config::attended_width(model);
  const std::int64_t kv = width * model.kv_heads;
  const std::int64_t matrices = 2 * d * q + 2 * d * kv + (gpt ? 2 : 3) * d * model.ffn;
  // gpt: biases of c_attn, c_proj, c_fc and c_proj, and two norms with bias; llama: two gains, and Qwen's.
  const std::int64_t vectors =
      gpt ? 3 * d + d + model.ffn + d + 4 * d
          : 2 * d + (model.qkv_bias ? q + 2 * kv : 0) + (model.qk_norm ? 2 * width : 0);
  const std::int64_t head = model.vocab * d;
  ParameterCount count;
  count.embedding = model.vocab * d;
  count.positions = gpt ? model.seq_len * d : 0;
  count.products = model.layers * matrices + head;
  count.total = count.embedding + count.positions + model.layers * (matrices + vectors) +
                (gpt ? 2 : 1) * d + (model.tied ? 0 : head);
  return count;
}

double flops_per_token(const config::Model& model, FlopsConvention convention) {
  const ParameterCount count = count_parameters(model);
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

void set_flops_per_token(ModelSpec& spec, const config::Model& model) {
  const plan::Program& program = spec.program;
  spec.flops_per_token = flops_per_token(model, FlopsConvention::kNanoGpt);
  spec.flops_convention = name(FlopsConvention::kNanoGpt);
  if (std::ranges::all_of(program.units, &plan::Unit::trainable) &&
      std::ranges::all_of(spec.adapted, &std::vector<int>::empty))
    return;
  const plan::GradientFlow flow = plan::gradient_flow(program);
  const double positions = static_cast<double>(count_parameters(model).positions);
  double flops = 0;
  for (std::size_t unit = 0; unit < program.units.size(); ++unit) {
    bool back = false;
    for (std::size_t node = 0; node < program.nodes.size(); ++node)
      back = back || (flow.node_has_backward[node] &&
                      plan::contains(program.nodes[node].units, static_cast<int>(unit)));
    const double counted =
        static_cast<double>(spec.units[unit].numel()) - (unit == 0 ? positions : 0);
    flops += (2 + 2 * back + 2 * program.units[unit].trainable) * counted;
  }
  for (std::size_t node = 1; node + 1 < program.nodes.size(); ++node)
    flops += (flow.node_has_backward[node] ? 12 : 4) *
             static_cast<double>(config::attended_width(model) * model.seq_len);
  spec.flops_per_token = flops;
  spec.flops_convention += ", less what frozen parameters do without";
}

void set_flops_of_nodes(ModelSpec& spec, const PerRank& rank, std::int64_t micro_batches) {
  const plan::GradientFlow flow = plan::gradient_flow(spec.program);
  double flops = 0;
  for (std::size_t n = 0; n < spec.program.nodes.size(); ++n) {
    const plan::Node& node = spec.program.nodes[n];
    const double back =
        flow.node_has_backward[n] ? node.backward_flops.value_or(2 * node.flops) : 0;
    flops += (node.flops + back) / static_cast<double>(node.joint ? micro_batches : 1);
  }
  spec.flops_per_token =
      flops * rank.tp / static_cast<double>(rank.micro_batch * spec.sample_tokens);
  spec.flops_convention = "matrix products and attention as computed";
}

}  // namespace trireme::arch
