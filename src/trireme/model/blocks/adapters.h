// Blocks whose linear layers have low-rank adapters, if the job wants some (docs/lora.md).
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/ops/adapters/adapter.h"
#include "trireme/ops/adapters/magnitude.h"

namespace trireme::blocks {

class AdaptedBlock : public BoundBlock {
 public:
  // `adapted` as ModelSpec has it of the block's node.
  AdaptedBlock(const config::Lora& lora, std::vector<int> adapted,
               std::shared_ptr<const Across> across)
      : BoundBlock(std::move(across)), lora_(lora), adapted_(std::move(adapted)) {}

 protected:
  bool is_adapted(int weight) const;
  // Adapter of the layer with this weight, undefined where it has none. The first of the block's `inputs` is an
  // activation between regions, whose rows key the dropout; `columns` are those that the layer reads here.
  ops::Adapter adapter(std::size_t weight, const std::vector<at::Tensor>& inputs,
                       const exec::BlockContext& context, Columns columns = {}) const;

  // Whether a magnitude scales what this weight gives. The layer then adds zeros, and the bias comes after.
  bool is_scaled(int weight) const { return lora_.dora && is_adapted(weight); }
  at::Tensor bias_within(int weight, const at::Tensor& bias) const;
  // The magnitude of a scaled weight. `tp`: the ranks that share the layer by inputs. While a sequence is read in parts,
  // norms are computed once.
  ops::Magnitude magnitude(std::size_t weight, const ops::Adapter& adapter, const at::Tensor& bias,
                           const exec::BlockContext& context,
                           const ops::TensorParallel& tp = {}) const;

  // Whether the second norm keeps its result for the layer `up`. A frozen layer needs it only for its own
  // recomputation, and then recomputes it as well.
  ops::Keep keep_normed(std::size_t up, const Kept& kept) const;

 private:
  // Among adapted weights, and the first of its adapter's parameters.
  std::size_t place_of(int weight) const;
  std::size_t first_of(std::size_t place) const {
    return params() - (lora_.dora ? 3 : 2) * (adapted_.size() - place);
  }

  config::Lora lora_;
  std::vector<int> adapted_;
};

}  // namespace trireme::blocks
