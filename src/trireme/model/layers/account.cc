#include "trireme/model/layers/account.h"

#include <algorithm>
#include <set>
#include <utility>

#include "trireme/config/head_width.h"
#include "trireme/model/account/exchanges.h"
#include "trireme/model/account/parts.h"
#include "trireme/model/layers/decoder_params.h"
#include "trireme/model/layers/layer_bytes.h"
#include "trireme/model/layers/layer_operations.h"
#include "trireme/model/layers/layer_transients.h"

namespace trireme::model {
namespace {

using Op = Layer::Op;

class Account : public LayerBytes {
 public:
  using LayerBytes::LayerBytes;
  Work work() const;
  std::vector<plan::NodeExchange> exchanges() const;

 private:
  // Numbers of a token in rows of the tables of queries and keys.
  std::int64_t rotated(const Layer& layer) const {
    if (!layer.attends.rotary) return 0;
    return (layer.multiplier == 1 ? 1 : 2) * layer.angles * config::head_width(model_);
  }
  double product_flops(double elements) const {
    return 2.0 * static_cast<double>(sizes_.tokens) * elements;
  }
  // Products of adapters, for the norms of rows.
  double norm_flops(const Layer& layer) const {
    return 2.0 * static_cast<double>(scaled(layer) * read(layer) * trained_.adapter_rank);
  }
  double attention_flops(const Layer& layer) const {
    return (layer.causal ? 1 : 2) *
           model::attention_flops(model_, sizes_, rank_.tp, layer.attends.window);
  }
  std::int64_t split_bytes() const;
};

// Of layers that train what they read and gradients of what they write; of norms, of magnitudes with their biases, and of
// biases of rows that are shared, gradients as sums.
std::int64_t Account::split_bytes() const {
  std::int64_t tokens = 0, rows = 0, sums = 0, adapters = 0, magnitudes = 0;
  std::set<int> closed;  // gradients that layers which close regions keep
  for (const Layer& layer : block_.layers) {
    if (layer.op == Op::kNorm) sums += (layer.biases.empty() ? 1 : 2) * sizes_.d;
    if (!layer.biases.empty())
      sums += layer.op == Op::kRows && rank_.sequence ? sizes_.d : scaled(layer);
    magnitudes += scaled(layer);
    if (norms_heads(layer) && flow_.flows(layer))
      for (const int heads : {layer.reads[0], layer.reads[1]})
        sums += layer.whole_heads ? block_.tensors[heads].features : config::head_width(model_);
    adapters += inner(layer);
    if (!is_linear(layer) || !flow_.trains(layer) || !flow_.flows(layer)) continue;
    // Of gate and up, the activation.
    (layer.op == Op::kColumns ? rows : tokens) += features({layer.reads[0]});
    // Layers that close regions may have one gradient, unless each gathers it or has its own.
    if (layer.op == Op::kColumns || tape_.shared || scaled(layer) > 0 ||
        closed.insert(flow_.gradient_of(layer.writes[0])).second)
      tokens += features(layer.writes);
  }
  return (sizes_.tokens * tokens + sizes_.rows * rows) * sizes_.element + 2 * adapters +
         (magnitudes + (trained_.gradients.own ? sums : 0)) * sizes_.statistic;
}

Work Account::work() const {
  Work work;
  double backward = 0, weights = 0;
  bool adapted = false;
  BlockShape shape{.norms = 0, .attended = false};
  for (const Layer& layer : block_.layers) {
    if (layer.op == Op::kNorm) {
      // A norm without a gradient must keep what it reads, to be recomputed; what the node reads is kept by others.
      shape.norms +=
          flow_.saved(layer.writes[1]) && (flow_.reaches(layer.writes[1]) || layer.writes[0] == 0);
      shape.norm_flops = layer.biases.empty() ? kRmsNormFlops : kLayerNormFlops;
    }
    if (layer.op == Op::kAttention) {
      const double flops = attention_flops(layer);
      shape.attended = flow_.flows(layer);
      shape.attention_flops += flops;
      work.flops += flops;
      if (flow_.flows(layer)) backward += 2 * flops;
      if (flow_.flows(layer)) work.saved_bytes += document_saved(sizes_, rank_, rotated(layer));
    }
    if (layer.op == Op::kMixer) {
      work.flops += block_.mixer.flops;
      if (flow_.flows(layer)) backward += 2 * block_.mixer.flops;
    }
    if (!is_linear(layer)) continue;
    double elements = 0, on = 0, up = 0;
    for (const int weight : layer.weights) {
      const LinearLayers own = linear(weight);
      const double whole = static_cast<double>(own.weights) / rank_.tp;
      elements += whole + own.down + own.up;
      on += whole + own.down;
      up += own.up;
      weights += (trained_.gradients.own ? whole : 0) + own.down + own.up;
    }
    work.flops += product_flops(elements) + norm_flops(layer);
    if (flow_.flows(layer))
      backward += product_flops(up + (flow_.reaches(layer.reads[0]) ? on : 0));
    adapted = adapted || flow_.adapts(layer);
    if (layer.wide) {
      shape.inner = flow_.flows(layer) ? features(layer.writes) + scaled(layer) : 0;
      shape.inner_flops = product_flops(elements);
      shape.up_trains = flow_.trains(layer);
      shape.up_normed = std::ranges::any_of(block_.layers, [&](const Layer& other) {
        return other.op == Op::kNorm && other.writes[1] == layer.reads[0];
      });
    }
  }
  work.saved_bytes += kept();
  backward += product_flops(weights);
  if (!trained_.gradients.input || !trained_.gradients.own || adapted)
    work.backward_flops = backward;
  if (trained_.gradients.own || adapted)
    work.split = {.kept_bytes = split_bytes(), .weight_flops = product_flops(weights)};
  work.parts = block_parts(sizes_, shape);
  return work;
}

// Of attention, and of regions over tp ranks (Shoeybi et al. 2019). By rows, backward gathers the input of a layer that
// opens one a second time (Korthikanti et al. 2022).
std::vector<plan::NodeExchange> Account::exchanges() const {
  const Exchanges exchanges(sizes_, rank_);
  RegionCounts counts;
  int norms = 0;
  std::vector<plan::NodeExchange> all, of_mixers;
  const auto add = [&](std::vector<plan::NodeExchange>& to, std::vector<plan::NodeExchange> more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (const Layer& layer : block_.layers) {
    const bool flows = flow_.flows(layer), mixes = layer.op == Op::kMixer;
    if (layer.op == Op::kAttention) {
      std::vector<plan::NodeExchange> own = exchanges.attention();
      for (plan::NodeExchange& one : own) one.backward *= flows;
      add(all, std::move(own));
    }
    if (layer.whole_heads)
      add(all, exchanges.row_numbers(static_cast<int>(layer.weights.size()), flows));
    if (mixes) add(of_mixers, exchanges.row_numbers(1, flows));  // of its norm
    if (layer.op == Op::kColumns || mixes) {
      ++counts.opened;
      counts.opened_back += flow_.reaches(layer.reads[0]);
      counts.trained += flow_.trains(layer);
      counts.again += layer.wide;
    }
    if (layer.op == Op::kRows) norms += scaled(layer) > 0;
    if (layer.op == Op::kRows || mixes) {
      ++counts.closed;
      counts.closed_back += flows;
    }
  }
  add(all, exchanges.norms(norms));
  add(all, exchanges.regions(counts));
  add(all, std::move(of_mixers));
  return all;
}

}  // namespace

LayersAccount account_of(const BlockLayers& block, const TrainedLayers& trained,
                         const config::Model& model, const Sizes& sizes, const PerRank& rank) {
  const Account account(block, trained, model, sizes, rank);
  return {.work = account.work(),
          .transients = LayerTransients(block, trained, model, sizes, rank).transients(),
          .exchanges = account.exchanges(),
          .operations = LayerOperations(block, trained, model, sizes, rank).operations()};
}

}  // namespace trireme::model
