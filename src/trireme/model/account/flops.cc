#include "trireme/model/account/flops.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/head_width.h"

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

ParameterCount count_parameters(const config::Model& model, const config::Llama& llama) {
  const config::DecoderTraits has = config::traits(config::info(model.family).decoder);
  const std::int64_t d = model.hidden;
  const std::int64_t width = config::head_width(model), q = config::attended_width(model);
  const std::int64_t kv = width * model.kv_heads, norm = has.biased ? 2 * d : d;
  const std::int64_t matrices = 2 * d * q + 2 * d * kv + (has.gated ? 3 : 2) * d * model.ffn;
  const std::int64_t norms = llama.norms == config::NormPlaces::kBoth ? 4 : 2;
  const std::int64_t head_norms = !model.qk_norm ? 0 : llama.whole_qk_norm ? q + kv : 2 * width;
  // Of norms and, where layers are biased, of all of them; else Qwen's.
  const std::int64_t vectors =
      norms * norm + (has.biased ? q + 2 * kv + d + model.ffn + d
                                 : (model.qkv_bias ? q + 2 * kv : 0) + head_norms);
  const std::int64_t head = model.vocab * d;
  ParameterCount count;
  count.embedding = model.vocab * d;
  count.positions = has.rotary ? 0 : model.seq_len * d;
  count.products = model.layers * matrices + head;
  count.total = count.embedding + count.positions + model.layers * (matrices + vectors) + norm +
                (model.tied ? 0 : head);
  return count;
}

double flops_per_token(const config::Model& model, FlopsConvention convention,
                       const config::Llama& llama) {
  const ParameterCount count = count_parameters(model, llama);
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
