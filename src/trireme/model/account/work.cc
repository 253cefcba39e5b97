#include "trireme/model/account/work.h"

#include "trireme/config/head_width.h"
#include "trireme/model/account/parts.h"

namespace trireme::model {
namespace {

double product_flops(const Sizes& sizes, double elements) {
  return 2.0 * static_cast<double>(sizes.tokens) * elements;
}

// In the rank's heads: q, k, v, attention's result, once more where heads were exchanged, log-sum-exp.
std::int64_t attention_saved(const Sizes& sizes) {
  const Sizes::Attention& own = sizes.attention;
  return own.tokens * (2 * (own.q + own.kv) * sizes.element + own.heads * sizes.statistic) +
         sizes.exchanged * sizes.tokens * sizes.q * sizes.element;
}

class BlockWork {
 public:
  BlockWork(const config::Model& model, const Sizes& sizes, const PerRank& rank,
            const TrainedBlock& block)
      : sizes_(sizes),
        rank_(rank),
        block_(block),
        attention_((block.causal ? 1 : 2) * attention_flops(model, sizes, rank.tp, /*window=*/0)) {}

  // Kept by rows: inputs of qkv and statistics of the first norm, x between the branches and statistics of the second,
  // and inputs of the layers up. Kept for all tokens, in the rank's features: inputs of activations, and adapters'
  // inner rows.
  std::int64_t saved() const {
    if (!block_.reached()) return 0;
    const std::int64_t row = sizes_.d * sizes_.element;
    const std::int64_t norm = block_.statistics * sizes_.statistic;
    std::int64_t rows = block_.normed() * norm + block_.trains(block_.up) * row;
    std::int64_t all = sizes_.tokens * block_.inner * sizes_.element + inner_bytes();
    if (block_.attended()) {
      rows += block_.trains(block_.qkv) * row + row + norm;
      all += attention_saved(sizes_) + document_saved(sizes_, rank_, block_.rotated);
    }
    return sizes_.rows * rows + all;
  }

  double forward() const {
    return product_flops(sizes_, weights() / rank_.tp + adapters()) + attention_;
  }

  double backward() const {
    double flops = input(block_.down, true) + input(block_.up, block_.attended()) + weight();
    if (block_.attended())
      flops += input(block_.out, true) + input(block_.qkv, block_.normed()) + 2 * attention_;
    return flops;
  }

  double weight() const {
    const double own = block_.gradients.own ? weights() / rank_.tp : 0;
    return product_flops(sizes_, own + adapters());
  }

  // Kept between input backward and weight backward: inputs of trained layers, and the gradients of their results.
  // Adapters keep inner rows and their gradients, gains and biases keep sums.
  std::int64_t kept() const {
    std::int64_t tokens = 0, rows = 0;
    if (block_.trains(block_.qkv)) {
      tokens += sizes_.q + 2 * sizes_.kv + sizes_.q + sizes_.d;
      rows += sizes_.d;
    }
    if (block_.trains(block_.up)) {
      tokens += block_.inner + sizes_.ffn + sizes_.d;
      rows += sizes_.d;
    }
    const std::int64_t sums = block_.gradients.own ? block_.sums : 0;
    return (sizes_.tokens * tokens + sizes_.rows * rows) * sizes_.element + 2 * inner_bytes() +
           sums * sizes_.d * sizes_.statistic;
  }

  std::vector<plan::Part> parts() const {
    const LinearLayers& up = block_.up;
    const double elements = static_cast<double>(up.weights) / rank_.tp + up.down + up.up;
    const bool up_trains = block_.trains(up);
    // A norm without a gradient keeps its input to recompute its result.
    return block_parts(sizes_,
                       {.inner = block_.reached() ? block_.inner : 0,
                        .norm_flops = block_.norm_flops,
                        .attention_flops = attention_,
                        .inner_flops = product_flops(sizes_, elements),
                        .norms = block_.trains(block_.qkv) + (up_trains && block_.attended()),
                        .attended = block_.attended(),
                        .up_trains = up_trains});
  }

 private:
  double weights() const {
    return static_cast<double>(block_.qkv.weights + block_.out.weights + block_.up.weights +
                               block_.down.weights);
  }
  double adapters() const {
    double elements = 0;
    for (const LinearLayers* layers : {&block_.qkv, &block_.out, &block_.up, &block_.down})
      elements += layers->down + layers->up;
    return elements;
  }
  std::int64_t inner_bytes() const {
    return sizes_.tokens * sizes_.element *
           (block_.qkv.inner + block_.out.inner + block_.up.inner + block_.down.inner);
  }
  // Backward to the adapters' inner rows, and on to the layers' inputs if these need a gradient.
  double input(const LinearLayers& layers, bool goes_on) const {
    const double on = static_cast<double>(layers.weights) / rank_.tp + layers.down;
    return product_flops(sizes_, layers.up + (goes_on ? on : 0));
  }

  const Sizes& sizes_;
  const PerRank& rank_;
  const TrainedBlock& block_;
  double attention_;
};

}  // namespace

double attention_flops(const config::Model& model, const Sizes& sizes, int tp,
                       std::int64_t window) {
  return 2.0 * static_cast<double>(sizes.tokens) * scored_tokens(model.seq_len, window) *
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

double scored_tokens(std::int64_t tokens, std::int64_t window) {
  const auto all = static_cast<double>(tokens), seen = static_cast<double>(window);
  return window == 0 || window >= tokens ? all : seen * (2 - seen / all);
}

Work block_work(const config::Model& model, const Sizes& sizes, const PerRank& rank,
                const TrainedBlock& block) {
  const BlockWork work(model, sizes, rank, block);
  Work result{.saved_bytes = work.saved(), .flops = work.forward(), .parts = work.parts()};
  const bool adapted = block.qkv.adapted() || block.up.adapted();
  if (!block.gradients.input || !block.gradients.own || adapted)
    result.backward_flops = work.backward();
  if (block.gradients.own || adapted)
    result.split = {.kept_bytes = work.kept(), .weight_flops = work.weight()};
  return result;
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
