#include "trireme/model/blocks/adapters.h"

#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "trireme/exec/past.h"

namespace trireme::blocks {
namespace {

constexpr int kFirstDraw = 16;  // after those of any family

}  // namespace

bool AdaptedBlock::is_adapted(int weight) const {
  return std::ranges::find(adapted_, weight) != adapted_.end();
}

ops::Adapter AdaptedBlock::adapter(std::size_t weight, const std::vector<at::Tensor>& inputs,
                                   const exec::BlockContext& context, Columns columns) const {
  if (!is_adapted(static_cast<int>(weight))) return {};
  const std::size_t place = place_of(static_cast<int>(weight)), down = first_of(place);
  ops::Adapter adapter{
      .down = param(down), .up = param(down + 1), .scale = config::lora_scale(lora_)};
  if (lora_.dropout > 0 && context.training)
    adapter.noise = {.p = lora_.dropout,
                     .key = context.generator(kFirstDraw + static_cast<int>(place)).current_seed(),
                     .rows = across().rows_inside(inputs[0], cp(inputs)),
                     .columns = columns.all,
                     .first = columns.first};
  return adapter;
}

std::size_t AdaptedBlock::place_of(int weight) const {
  return static_cast<std::size_t>(std::ranges::find(adapted_, weight) - adapted_.begin());
}

at::Tensor AdaptedBlock::bias_within(int weight, const at::Tensor& bias) const {
  return bias.defined() && is_scaled(weight) ? at::zeros_like(bias) : bias;
}

ops::Magnitude AdaptedBlock::magnitude(std::size_t weight, const ops::Adapter& adapter,
                                       const at::Tensor& bias, const exec::BlockContext& context,
                                       const ops::TensorParallel& tp) const {
  const std::size_t place = place_of(static_cast<int>(weight));
  ops::Magnitude magnitude{.values = param(first_of(place) + 2), .bias = bias};
  const auto computed = [&] { return ops::row_norms(param(weight), adapter, tp); };
  if (context.past == nullptr) {
    magnitude.norms = computed();
    return magnitude;
  }
  std::vector<at::Tensor>& norms = context.past->constants;
  norms.resize(adapted_.size());
  if (!norms[place].defined()) norms[place] = computed();
  magnitude.norms = norms[place];
  return magnitude;
}

ops::Keep AdaptedBlock::keep_normed(std::size_t up, const Kept& kept) const {
  const bool trains = param(up).requires_grad() || is_adapted(static_cast<int>(up));
  return !trains && kept.mlp == ops::Keep::kNo ? ops::Keep::kNo : kept.norms;
}

}  // namespace trireme::blocks
