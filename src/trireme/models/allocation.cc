#include "trireme/models/allocation.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <span>

namespace trireme::models {
namespace {

// [b, 1].
at::Tensor threshold(const at::Tensor& z, const Levels& levels, double temperature) {
  constexpr int kBisections = 60;
  constexpr double kSaturated = 50;  // a sigmoid is 0 or 1 beyond
  const double range = static_cast<double>(levels.most_tokens() - levels.least_tokens());
  const double spare =
      static_cast<double>(levels.budget - z.size(1) * levels.least_tokens()) / range;
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
  std::int64_t left = levels.budget;
  for (std::size_t p = 0; p < counts.size(); ++p) {
    // What is a whole number but for rounding counts as one.
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

at::Tensor soft_counts(const at::Tensor& z, const Levels& levels, double temperature) {
  const at::Tensor wide = z.to(at::kDouble);
  const auto least = static_cast<double>(levels.least_tokens());
  const double range = static_cast<double>(levels.most_tokens()) - least;
  at::Tensor lambda, weights;
  {
    at::NoGradGuard no_grad;
    lambda = threshold(wide.detach(), levels, temperature);
    const at::Tensor s = at::sigmoid((wide.detach() - lambda) / temperature);
    const at::Tensor slopes = s * (1 - s);
    weights = slopes / slopes.sum(1, true).clamp_min(1e-300);
  }
  // Its value is lambda's, its gradient the weights.
  lambda = lambda + (weights * (wide - wide.detach())).sum(1, true);
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

}  // namespace trireme::models
