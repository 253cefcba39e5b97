#include "trireme/exec/units/gradient_counter.h"

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/tree_sum.h"
#include "trireme/plan/binary_counter.h"

namespace trireme::exec {

void add(Flat& earlier, const Flat& later) {
  TRIREME_CHECK(earlier.count() == later.count() && earlier.type() == later.type(),
                "gradients of different shape meet in one sum");
  if (!earlier.on_host()) {
    earlier.tensor(0, earlier.count()).add_(later.tensor(0, later.count()));
    return;
  }
  comm::add_into(earlier.data(), later.data(), earlier.count(), earlier.type());
}

void GradientCounter::push(Flat gradient) {
  const auto met = static_cast<std::size_t>(plan::levels_met(pushed_, row_));
  const auto own = static_cast<std::size_t>(plan::level_of_sum(pushed_, row_));
  ++pushed_;
  levels_.resize(std::max({levels_.size(), met, own + 1}));
  for (std::size_t level = 0; level < met; ++level) {
    add(levels_[level], gradient);
    gradient = std::exchange(levels_[level], Flat());
  }
  levels_[own] = std::move(gradient);
}

Flat GradientCounter::collapse() {
  Flat sum;
  for (Flat& level : levels_) {
    if (!level) continue;
    if (sum) add(level, sum);
    sum = std::move(level);
  }
  levels_.clear();
  pushed_ = 0;
  TRIREME_CHECK(static_cast<bool>(sum), "a gradient is asked for that no backward has written");
  return sum;
}

}  // namespace trireme::exec
