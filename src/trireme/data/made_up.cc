#include "trireme/data/made_up.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/made_up.h"
#include "trireme/data/sample_order.h"

namespace trireme::data {
namespace {

// Numbers of samples by their place in the order of consumption.
using NumberAt = std::function<std::int64_t(std::int64_t place)>;

class MadeUp final : public Source {
 public:
  MadeUp(std::int64_t samples, NumberAt number, MakeBatch make, Weigh weigh)
      : samples_(samples),
        number_(std::move(number)),
        make_(std::move(make)),
        weigh_(std::move(weigh)) {}

  std::int64_t samples() const override { return samples_; }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    std::vector<std::int64_t> numbers;
    for (std::int64_t place = first; place < first + count; ++place)
      numbers.push_back(number_(place));
    return make_(numbers);
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    if (!weigh_) return static_cast<double>(count);
    double sum = 0;
    for (std::int64_t place = first; place < first + count; ++place) sum += weigh_(number_(place));
    return sum;
  }

 private:
  std::int64_t samples_;
  NumberAt number_;
  MakeBatch make_;
  Weigh weigh_;
};

std::int64_t held_out(const config::Job& job) {
  const auto wanted = static_cast<std::int64_t>(
      std::ceil(job.data.validation * static_cast<double>(job.data.samples)));
  const std::int64_t batch = job.run.global_batch;
  return (wanted + batch - 1) / batch * batch;
}

}  // namespace

double Draws::next() {
  constexpr int kBits = 53;  // of a double
  return std::ldexp(static_cast<double>(mix(key_, drawn_++) >> (64 - kBits)), -kBits);
}

double Draws::uniform(double from, double to) { return from + (to - from) * next(); }

std::int64_t Draws::below(std::int64_t count) {
  return static_cast<std::int64_t>(next() * static_cast<double>(count));
}

// Box & Muller 1958.
double Draws::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - next()));
  return radius * std::cos(2 * std::numbers::pi * next());
}

Sources made_up_sources(const config::Job& job, MakeBatch make, Weigh weigh) {
  const config::MadeUpSource* known = config::made_up(job.data.source);
  TRIREME_CHECK(known != nullptr, "data.source {} is read", static_cast<int>(job.data.source));
  const std::int64_t samples = job.data.samples;
  const SampleOrder order(samples, static_cast<std::uint64_t>(job.data.seed));
  return {
      .train = std::make_unique<MadeUp>(
          samples, [order](std::int64_t place) { return order.at(place).sample; }, make, weigh),
      .held_out = std::make_unique<MadeUp>(
          held_out(job), [samples](std::int64_t place) { return samples + place; }, make, weigh),
      .digest = config::digest(*known)};
}

}  // namespace trireme::data
