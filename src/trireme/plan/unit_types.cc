#include "trireme/plan/unit_types.h"

#include <algorithm>
#include <numeric>

#include "trireme/plan/shard.h"
#include "trireme/plan/unit_sharing.h"

namespace trireme::plan {

DType value_type(const Recipe& recipe, const Value& value) {
  return value.type.value_or(recipe.compute);
}

DType param_type(const Recipe& recipe, const Unit& unit) {
  return unit.type.value_or(recipe.compute);
}

bool has_master_copy(const Recipe& recipe, const Unit& unit) {
  return (param_type(recipe, unit) != recipe.master || gathers_codes(recipe, unit)) &&
         (unit.trainable || unit.ema_of >= 0);
}

DType stored_type(const Recipe& recipe, const Unit& unit) {
  return has_master_copy(recipe, unit) ? recipe.master : param_type(recipe, unit);
}

bool splits_masters(const Recipe& recipe, const Unit& unit) {
  return has_master_copy(recipe, unit) && recipe.master == DType::kF32 &&
         param_type(recipe, unit) == DType::kBF16 && !gathers_codes(recipe, unit) &&
         recipe.offload.optimizer == Tier::kNone && recipe.offload.params == Tier::kNone;
}

std::int64_t master_bytes(const Recipe& recipe, const Unit& unit) {
  if (!has_master_copy(recipe, unit)) return 0;
  const DType kept = splits_masters(recipe, unit) ? DType::kI16 : recipe.master;
  return static_cast<std::int64_t>(size_of(kept));
}

DType reduce_type(const Recipe& recipe) { return recipe.reduce.value_or(recipe.grads); }

std::int64_t state_block(std::int64_t numel) {
  constexpr std::int64_t kMost = 256;  // Dettmers et al. 2022 take 2048, their later code 256
  return std::min(kMost, norm_chunk(numel));
}

std::vector<std::int64_t> state_tensors(const Recipe& recipe, const Unit& unit,
                                        std::int64_t count) {
  const auto width = [](DType type) { return static_cast<std::int64_t>(size_of(type)); };
  const std::int64_t block = state_block(unit.numel);
  std::vector<std::int64_t> tensors;
  for (int state = 0; state < unit.states.value_or(recipe.optimizer_states); ++state) {
    if (recipe.int8_states) {
      tensors.push_back(count * width(DType::kU8));
      tensors.push_back((count + block - 1) / block * width(DType::kF32));
    } else {
      tensors.push_back(count * width(recipe.master));
    }
  }
  return tensors;
}

std::int64_t state_bytes(const Recipe& recipe, const Unit& unit, std::int64_t count) {
  const std::vector<std::int64_t> tensors = state_tensors(recipe, unit, count);
  return std::accumulate(tensors.begin(), tensors.end(), std::int64_t{0});
}

}  // namespace trireme::plan
