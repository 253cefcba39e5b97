// A block that runs its layers one by one, as model/layers/layers.h lists them.
#pragma once

#include <array>
#include <functional>

#include "trireme/exec/past.h"
#include "trireme/model/blocks/adapters.h"
#include "trireme/model/layers/layer.h"
#include "trireme/ops/attention/attention.h"

namespace trireme::blocks {

// What a layer of attention reads besides queries, keys and values.
struct LayerSight {
  using Turn = std::function<at::Tensor(const at::Tensor& heads)>;
  ops::Mask mask{};
  ops::ContextParallel cp{};
  // Rotation of [samples, tokens, heads * width], where the layer has one; it may be called once.
  Turn queries{}, keys{};
  at::Tensor key_bias{};  // [tokens]: added to the scores of every key, where the layer has one
};
// From the node's inputs. Given the past of a sequence, masks are not read.
using LayerLook = std::function<LayerSight(
    const model::Layer& layer, const std::vector<at::Tensor>& inputs, const exec::Past* past)>;

// A family's own way to mix rows: of x [samples, tokens, d] and its weights, in their order; the result as x. Counts rows
// of a past.
using LayerMixer = std::function<at::Tensor(
    const ops::Operand& x, const std::vector<at::Tensor>& weights,
    const std::vector<at::Tensor>& inputs, const exec::BlockContext& context)>;

// The first input is x, [samples, tokens, d], or [rows, d] of one sample.
class LayeredBlock : public AdaptedBlock {
 public:
  struct Setting {
    std::vector<model::Layer> layers{};
    LayerLook look{};
    LayerMixer mixer{};
    ops::AttentionHeads heads{};  // without noise; `group` and `all_heads` are set
    double norm_eps = 0;
    double dropout = 0;
    Kept kept{};
    config::Lora lora{};
    std::vector<int> adapted{};  // as AdaptedBlock's
  };
  LayeredBlock(Setting setting, std::shared_ptr<const Across> across);
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override;

 private:
  // Inputs of a forward, and its tensors as layers number them.
  struct Run {
    const std::vector<at::Tensor>& inputs;
    const exec::BlockContext& context;
    std::vector<ops::Operand> tensors;
  };
  using Heads = std::array<at::Tensor, 3>;

  void run(const model::Layer& layer, Run& run) const;
  void norm(const model::Layer& layer, Run& run) const;
  void columns(const model::Layer& layer, Run& run) const;
  void attention(const model::Layer& layer, Run& run) const;
  void rows(const model::Layer& layer, Run& run) const;
  // The layer's product, after its activation if there is one.
  at::Tensor row_linear(const model::Layer& layer, const at::Tensor& bias,
                        const ops::Adapter& adapter, const Run& run) const;
  void mix(const model::Layer& layer, Run& run) const;
  at::Tensor bias(const model::Layer& layer, std::size_t of) const {
    return layer.biases.empty() ? at::Tensor() : param(layer.biases[of]);
  }
  bool drops(const model::Layer& layer, const Run& run) const {
    return layer.draw && dropout_ > 0 && run.context.training;
  }
  // Queries, keys and values as attention takes them: normed and turned as the layer says, on their own. Uses up the
  // sight's rotations.
  Heads heads(const model::Layer& layer, LayerSight& sight, Run& run) const;
  // RMS norm of queries or keys, if the layer has one.
  at::Tensor head_norm(const model::Layer& layer, std::size_t of, at::Tensor x,
                       const Run& run) const;
  // Of rows that follow others.
  at::Tensor attend_to_past(const model::Layer& layer, const Heads& qkv, exec::Past& past) const;

  std::vector<model::Layer> layers_;
  std::vector<std::vector<int>> ended_;  // parallel to layers: tensors that none reads after it
  LayerLook look_;
  LayerMixer mixer_;
  ops::AttentionHeads heads_;
  double norm_eps_;
  double dropout_;
  Kept kept_;
};

}  // namespace trireme::blocks
