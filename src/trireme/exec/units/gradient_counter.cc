#include "trireme/exec/units/gradient_counter.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/comm/tree_sum.h"

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
  for (Flat& level : levels_) {
    if (!level) {
      level = std::move(gradient);
      return;
    }
    add(level, gradient);
    if (!canonical_) return;
    gradient = std::exchange(level, Flat());
  }
  levels_.push_back(std::move(gradient));
}

Flat GradientCounter::collapse() {
  Flat sum;
  for (Flat& level : levels_) {
    if (!level) continue;
    if (sum) add(level, sum);
    sum = std::move(level);
  }
  levels_.clear();
  TRIREME_CHECK(static_cast<bool>(sum), "a gradient is asked for that no backward has written");
  return sum;
}

}  // namespace trireme::exec
