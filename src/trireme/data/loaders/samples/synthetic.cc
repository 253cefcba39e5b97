#include "trireme/data/loaders/samples/synthetic.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/held_out.h"
#include "trireme/config/synthetic.h"
#include "trireme/data/loaders/balance.h"
#include "trireme/data/loaders/sample_order.h"

namespace trireme::loaders {
namespace {

// Numbers of samples by their place in the order of consumption.
using NumberAt = std::function<std::int64_t(std::int64_t place)>;

class Synthetic final : public Source {
 public:
  Synthetic(std::int64_t samples, NumberAt number, MakeBatch make, Weigh weigh)
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

SyntheticCounts synthetic_counts(const config::Job& job) {
  const double validation = job.data.validation;
  const auto wanted = static_cast<std::int64_t>(
      is_count(validation) ? validation
                           : std::ceil(validation * static_cast<double>(job.data.samples)));
  const std::int64_t batch = job.run.global_batch;
  if (is_count(validation) && wanted % batch != 0)
    fail(ErrorKind::kUsage,
         "data.validation={}: synthetic samples are held out in whole global batches of {}; set a "
         "multiple, such as {}",
         wanted, batch, (wanted + batch - 1) / batch * batch);
  return {.train = job.data.samples, .held_out = (wanted + batch - 1) / batch * batch};
}

Sources synthetic_sources(const config::Job& job, SyntheticCounts counts, MakeBatch make,
                          Weigh weigh, Weigh work) {
  const config::SyntheticSource* known = config::synthetic_source(job.data.source);
  TRIREME_CHECK(known != nullptr, "data.source {} is read", static_cast<int>(job.data.source));
  const SampleOrder order(counts.train, static_cast<std::uint64_t>(job.data.seed));
  Balance balance;
  if (work)
    balance = Balance(job, [order, work = std::move(work)](std::int64_t place) {
      return work(order.at(place).sample);
    });
  return {.train = std::make_unique<Synthetic>(
              counts.train,
              [order, balance](std::int64_t place) { return order.at(balance.at(place)).sample; },
              make, weigh),
          .held_out = std::make_unique<Synthetic>(
              counts.held_out, [train = counts.train](std::int64_t place) { return train + place; },
              make, weigh),
          .digest = config::digest(*known)};
}

Sources synthetic_sources(const config::Job& job, MakeBatch make, Weigh weigh) {
  return synthetic_sources(job, synthetic_counts(job), std::move(make), std::move(weigh));
}

}  // namespace trireme::loaders
