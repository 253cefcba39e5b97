#include "trireme/plan/check/recipe_check.h"

#include <fmt/format.h>

namespace trireme::plan {

std::optional<std::string> mistake_in(const Recipe& recipe) {
  const Offload& offload = recipe.offload;
  if (recipe.zero < 0 || recipe.zero > 3)
    return fmt::format("zero is {}; choose a row 0, 1, 2 or 3", recipe.zero);
  if (recipe.micro_batches < 1)
    return fmt::format("a step has {} micro-batches; needs 1 or more", recipe.micro_batches);
  if (recipe.group < 1 || recipe.micro_batches % recipe.group != 0)
    return fmt::format("group is {}; needs a divisor of a rank's {} micro-batches", recipe.group,
                       recipe.micro_batches);
  if (recipe.group > 1 && !recipe.canonical)
    return fmt::format("group is {}, and fast sums have no groups; needs 1", recipe.group);
  if (recipe.prefetch < 0)
    return fmt::format("prefetch is {}; needs 0 or more units", recipe.prefetch);
  if (recipe.optimizer_states < 0)
    return fmt::format("optimizer_states is {}; needs 0 or more", recipe.optimizer_states);
  if (recipe.unsent < 1)
    return fmt::format("unsent is {}; needs 1 or more micro-batches", recipe.unsent);
  if (!(offload.ratio > 0 && offload.ratio <= 1))
    return fmt::format("offload.ratio={}; needs more than 0 and at most 1", offload.ratio);
  if (offload.prefetch < 0)
    return fmt::format("offload.prefetch={}; needs 0 or more units", offload.prefetch);
  return std::nullopt;
}

}  // namespace trireme::plan
