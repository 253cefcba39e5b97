#include "trireme/families/arrcoc/blocks_allocation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace trireme::blocks {
namespace {

double range_of(const Levels& levels) {
  return static_cast<double>(levels.most_tokens() - levels.least_tokens());
}

// Lambda for which sigmoids add up to `spare`: [b, 1], both.
at::Tensor threshold(const at::Tensor& z, const at::Tensor& spare, double temperature) {
  constexpr int kBisections = 60;
  constexpr double kSaturated = 50;  // a sigmoid is 0 or 1 beyond
  at::Tensor low = z.amin(1, true) - kSaturated * temperature;
  at::Tensor high = z.amax(1, true) + kSaturated * temperature;
  for (int i = 0; i < kBisections; ++i) {
    const at::Tensor middle = (low + high) / 2;
    const at::Tensor above = at::sigmoid((z - middle) / temperature).sum(1, true) > spare;
    low = at::where(above, middle, low);
    high = at::where(above, high, middle);
  }
  return (low + high) / 2;
}

void share_out(std::span<const double> counts, const Levels& levels, std::span<std::int64_t> own) {
  // Rounding must not cost a token.
  const double sum = std::accumulate(counts.begin(), counts.end(), 1e-6);
  std::int64_t left = std::min(levels.budget, static_cast<std::int64_t>(sum));
  for (std::size_t p = 0; p < counts.size(); ++p) {
    // A number that is whole within rounding counts as whole.
    const auto root = static_cast<std::int64_t>(std::sqrt(std::max(0.0, counts[p]) + 1e-9));
    own[p] = std::clamp(root, levels.least, levels.most);
    left -= own[p] * own[p];
  }
  while (true) {
    std::size_t best = counts.size();
    double furthest = 0;
    for (std::size_t p = 0; p < counts.size(); ++p) {
      if (own[p] == levels.most || 2 * own[p] + 1 > left) continue;
      const double below = counts[p] - static_cast<double>(own[p] * own[p]);
      if (best == counts.size() || below > furthest + 1e-9) {
        best = p;
        furthest = below;
      }
    }
    if (best == counts.size()) return;
    left -= 2 * own[best] + 1;
    ++own[best];
  }
}

}  // namespace

at::Tensor soft_counts(const at::Tensor& z, const Levels& levels, double temperature,
                       const at::Tensor& budget) {
  const at::Tensor wide = z.to(at::kDouble);
  const auto least = static_cast<double>(levels.least_tokens());
  const double range = range_of(levels);
  const at::Tensor all = budget.defined()
                             ? budget.to(at::kDouble)
                             : at::full({1, 1}, static_cast<double>(levels.budget), wide.options());
  const at::Tensor spare = (all - least * static_cast<double>(z.size(1))) / range;
  at::Tensor lambda, weights, slope;
  {
    at::NoGradGuard no_grad;
    lambda = threshold(wide.detach(), spare.detach(), temperature);
    const at::Tensor s = at::sigmoid((wide.detach() - lambda) / temperature);
    const at::Tensor slopes = s * (1 - s);
    const at::Tensor sum = slopes.sum(1, true).clamp_min(1e-300);
    weights = slopes / sum;
    slope = temperature / sum;
  }
  // Its value is lambda's, its gradient the weights of z, and of the budget what makes the sum follow it.
  lambda = lambda + (weights * (wide - wide.detach())).sum(1, true);
  if (budget.defined()) lambda = lambda - slope * (spare - spare.detach());
  return least + range * at::sigmoid((wide - lambda) / temperature);
}

at::Tensor hard_levels(const at::Tensor& counts, const Levels& levels) {
  const at::Tensor n = counts.detach().to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor result = at::empty(n.sizes(), at::TensorOptions().dtype(at::kLong));
  const auto regions = static_cast<std::size_t>(n.size(1));
  for (std::int64_t image = 0; image < n.size(0); ++image)
    share_out({n[image].data_ptr<double>(), regions}, levels,
              {result[image].data_ptr<std::int64_t>(), regions});
  return result;
}

}  // namespace trireme::blocks
