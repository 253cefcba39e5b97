#include "trireme/model/blocks/adapters.h"

#include <algorithm>

namespace trireme::blocks {
namespace {

constexpr int kFirstDraw = 16;  // after those of any family

}  // namespace

bool AdaptedBlock::is_adapted(int weight) const {
  return std::ranges::find(adapted_, weight) != adapted_.end();
}

ops::Adapter AdaptedBlock::adapter(std::size_t weight, const std::vector<at::Tensor>& inputs,
                                   const exec::BlockContext& context, Columns columns) const {
  const auto found = std::ranges::find(adapted_, static_cast<int>(weight));
  if (found == adapted_.end()) return {};
  const auto place = static_cast<std::size_t>(found - adapted_.begin());
  const std::size_t each = lora_.dora ? 3 : 2;
  const std::size_t down = params() - each * (adapted_.size() - place);
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

ops::Keep AdaptedBlock::keep_normed(std::size_t up, const Kept& kept) const {
  const bool trains = param(up).requires_grad() || is_adapted(static_cast<int>(up));
  return !trains && kept.mlp == ops::Keep::kNo ? ops::Keep::kNo : kept.norms;
}

}  // namespace trireme::blocks
