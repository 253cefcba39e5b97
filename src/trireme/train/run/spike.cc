#include "trireme/train/run/spike.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::train {
namespace {

constexpr double kSigmas = 1.4826;  // of a normal distribution, in MADs
constexpr double kFlat = 0.01;      // nats: a curve is never taken to be calmer than this

double exact_median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace

std::optional<Spike> SpikeDetector::judge(std::int64_t step, double loss) {
  if (rule_.zscore == 0) return std::nullopt;
  TRIREME_CHECK(std::isfinite(loss), "step {}: a loss of {} is not judged", step, loss);
  std::optional<Spike> spike;
  if (std::ssize(state_.losses) >= (rule_.window + 1) / 2) {
    const double middle = exact_median(state_.losses);
    std::vector<double> distances;
    for (const double before : state_.losses) distances.push_back(std::abs(before - middle));
    const double sigma = std::max(kSigmas * exact_median(std::move(distances)), kFlat);
    const double zscore = (loss - middle) / sigma;
    if (zscore >= rule_.zscore)
      spike = Spike{.step = step, .loss = loss, .median = middle, .zscore = zscore};
  }
  keep(loss);
  const bool goes_on = state_.high;
  state_.high = spike.has_value();
  if (!spike && step >= state_.furthest) state_.rewinds = state_.furthest = 0;
  return goes_on ? std::nullopt : spike;
}

void SpikeDetector::keep(double loss) {
  state_.losses.push_back(loss);
  if (std::ssize(state_.losses) > rule_.window) state_.losses.erase(state_.losses.begin());
}

void SpikeDetector::rewind(const SpikeState& earlier, const Spike& spike) {
  const SpikeState now = state_;
  restore(earlier);
  state_.rewinds = now.rewinds + 1;
  state_.furthest = std::max(now.furthest, spike.step);
}

void SpikeDetector::restore(const SpikeState& state) {
  state_ = rule_.zscore == 0 ? SpikeState{} : state;
  const std::int64_t more = std::ssize(state_.losses) - rule_.window;
  if (more > 0) state_.losses.erase(state_.losses.begin(), state_.losses.begin() + more);
}

}  // namespace trireme::train
