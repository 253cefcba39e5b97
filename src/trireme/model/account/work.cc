#include "trireme/model/account/work.h"

#include "trireme/config/head_width.h"
#include "trireme/model/account/parts.h"

namespace trireme::model {
namespace {

double product_flops(const Sizes& sizes, double elements) {
  return 2.0 * static_cast<double>(sizes.tokens) * elements;
}

}  // namespace

double attention_flops(const config::Model& model, const Sizes& sizes, int tp,
                       std::int64_t window) {
  return 2.0 * static_cast<double>(sizes.tokens) *
         scored_tokens(static_cast<double>(model.seq_len), static_cast<double>(window)) *
         static_cast<double>(config::attended_width(model)) / tp;
}

std::int64_t document_saved(const Sizes& sizes, const PerRank& rank, std::int64_t rotated) {
  if (!rank.documents)
    return rank.cp > 1 ? sizes.tokens / rank.micro_batch * rotated * sizes.statistic : 0;
  return sizes.attention.tokens * 8 + sizes.tokens * rotated * sizes.statistic;
}

LinearLayers layers_of(const std::vector<ParamSpec>& params, const std::vector<int>& indices,
                       int dim, const PerRank& rank, std::int64_t adapter_rank) {
  LinearLayers layers;
  for (const int index : indices) {
    const ParamSpec& weight = params[index];
    if (weight.cut.dim != dim) continue;
    const auto elements = [&](int side) {
      const auto whole = static_cast<double>(adapter_rank * weight.shape[side]);
      return side == dim ? whole / rank.tp : whole;
    };
    layers.weights += weight.numel();
    layers.down += elements(1);
    layers.up += elements(0);
    layers.inner += adapter_rank;
  }
  return layers;
}

double scored_tokens(double tokens, double window) {
  return window == 0 || window >= tokens ? tokens : window * (2 - window / tokens);
}

// Kept: the normed input for a weight that trains, the norm's statistics, the log-sum-exp and the logits, which become
// their own gradient. From half to half of its backward: the first, the logits' gradient and the norm's sums.
Work head_work(const config::Model& model, const Sizes& sizes, const PerRank& rank,
               const TrainedHead& head) {
  const std::int64_t input = sizes.rows * sizes.d * sizes.element;
  const std::int64_t logits = sizes.tokens * sizes.vocab * sizes.element;
  const double product = product_flops(sizes, static_cast<double>(sizes.d * model.vocab) / rank.tp);
  Work work{.saved_bytes = head.weight * input +
                           head.normed() * sizes.rows * head.statistics * sizes.statistic + logits +
                           sizes.tokens * sizes.statistic,
            .flops = product,
            .parts = head_parts(sizes, product, head.weight)};
  if (!head.normed() || !head.weight) work.backward_flops = (head.normed() + head.weight) * product;
  if (head.gradients.own || head.weight)
    work.split = {.kept_bytes = head.weight * (input + logits) +
                                head.gradients.own * head.statistics * sizes.d * sizes.statistic,
                  .weight_flops = head.weight * product};
  return work;
}

}  // namespace trireme::model
