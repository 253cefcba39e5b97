#include "trireme/families/hnet/blocks_stages.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <utility>

#include "trireme/config/rope.h"
#include "trireme/families/hnet/blocks_mamba.h"
#include "trireme/model/blocks/layered.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

// What rows see: those before in their sequence, within a window.
class HnetLook {
 public:
  HnetLook(const config::Model& model, const config::HnetStage& stage, Ranks ranks)
      : width_(stage.hidden / stage.heads),
        window_(stage.window),
        frequencies_(config::rope_frequencies(model.rope_theta, width_ / 2)),
        ranks_(std::move(ranks)) {}

  LayerSight operator()(const model::Layer&, const std::vector<at::Tensor>& inputs,
                        const exec::Past* past) const {
    if (past != nullptr)
      return at_places({}, at::arange(past->rows, past->rows + inputs[0].size(0),
                                      inputs[0].options().dtype(at::kLong)));
    const Sequences sequences(inputs[1]);
    LayerSight sight{.cp = ranks_->cp(sequences.position.size(0))};
    const mesh::Share rows = mesh::share(sight.cp.layout.tokens, sight.cp.rank(), sight.cp.size());
    const auto own = [&](const at::Tensor& of_rows) {
      return of_rows.narrow(0, rows.begin, rows.count());
    };
    sight.mask =
        ops::Mask::causal({.begin = own(sequences.begin).unsqueeze(0), .end = {}}, window_);
    return at_places(std::move(sight), own(sequences.position));
  }

 private:
  LayerSight at_places(LayerSight sight, const at::Tensor& places) const {
    sight.queries =
        sight.keys = [=, width = width_, frequencies = frequencies_](const at::Tensor& heads) {
          return turned(heads.reshape({places.size(0), -1, width}), places, frequencies)
              .reshape(heads.sizes());
        };
    return sight;
  }

  std::int64_t width_;  // of a head, half of whose channels turn
  std::int64_t window_;
  std::vector<double> frequencies_;
  Ranks ranks_;
};

// Weights as model::HnetParams has them.
at::Tensor mamba_of(const ops::Operand& x, const std::vector<at::Tensor>& weights,
                    const std::vector<at::Tensor>& inputs, const exec::BlockContext& context,
                    double norm_eps, const ops::TensorParallel& tp) {
  enum Weight { kIn, kTaps, kTapsBias, kStepBias, kLogRate, kSkip, kNorm, kOut };
  at::Tensor mixed =
      mamba(x,
            {.in = weights[kIn],
             .taps = weights[kTaps],
             .taps_bias = weights[kTapsBias],
             .step_bias = weights[kStepBias],
             .log_rate = weights[kLogRate],
             .skip = weights[kSkip],
             .norm = weights[kNorm],
             .out = weights[kOut]},
            Sequences(inputs[1]), norm_eps, tp, context.weight_gradients, context.past);
  if (context.past != nullptr) context.past->rows += inputs[0].size(0);
  return mixed;
}

}  // namespace

at::Tensor turned(const at::Tensor& x, const at::Tensor& positions,
                  const std::vector<double>& frequencies) {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t half = std::ssize(frequencies), width = 2 * half;
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) *
                            at::tensor(frequencies, at::kDouble).to(positions.device());
  const at::Tensor cosines = angles.cos().to(type).unsqueeze(1),
                   sines = angles.sin().to(type).unsqueeze(1);
  const at::Tensor first = x.narrow(-1, 0, half).to(type),
                   second = x.narrow(-1, half, half).to(type);
  return at::cat({(first * cosines - second * sines).to(x.scalar_type()),
                  (second * cosines + first * sines).to(x.scalar_type()),
                  x.narrow(-1, width, x.size(-1) - width)},
                 -1);
}

std::unique_ptr<exec::Block> hnet_block(const config::Model& model, const config::HnetStage& stage,
                                        std::vector<model::Layer> layers, const Ranks& ranks) {
  const mesh::Share mine = mesh::share(stage.heads, ranks->tp().rank(), ranks->tp().size());
  const auto mixer = [ranks, eps = model.norm_eps](const auto&... of_layer) {
    return mamba_of(of_layer..., eps, ranks->tp());
  };
  return std::make_unique<LayeredBlock>(LayeredBlock::Setting{.layers = std::move(layers),
                                                              .look = HnetLook(model, stage, ranks),
                                                              .mixer = mixer,
                                                              .heads = {.heads = mine.count(),
                                                                        .kv_heads = mine.count(),
                                                                        .group = 1,
                                                                        .first_head = mine.begin,
                                                                        .all_heads = stage.heads},
                                                              .norm_eps = model.norm_eps},
                                        ranks);
}

}  // namespace trireme::blocks
