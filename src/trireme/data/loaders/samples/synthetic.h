// Synthetic samples: each a pure function of a seed and its number.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "trireme/base/hash.h"
#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

// The random draws of one sample, the same on every machine and layout.
class Draws {
 public:
  Draws(std::int64_t seed, std::int64_t number)
      : key_(mix(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(number))) {}
  double uniform(double from, double to);  // in [from, to)
  std::int64_t below(std::int64_t count);  // 0 .. count - 1
  double normal();                         // of N(0, 1)

 private:
  double next();  // in [0, 1)
  std::uint64_t key_;
  std::uint64_t drawn_ = 0;
};

// Inputs of the program for the samples with these numbers.
using MakeBatch = std::function<std::vector<at::Tensor>(std::span<const std::int64_t> numbers)>;

// Divisor of a sample's losses, summed over its global batch.
using Weigh = std::function<double(std::int64_t number)>;

// Those that are trained on have the first numbers, those held out the next ones, which fill whole global batches.
struct SyntheticCounts {
  std::int64_t train = 0;
  std::int64_t held_out = 0;
};
// data.samples an epoch, and of as many those that data.validation holds out.
SyntheticCounts synthetic_counts(const config::Job& job);

// Each epoch in an order of its own; balanced by `work` where vlm.balance is set. Each weighs 1 unless `weigh` says
// otherwise.
Sources synthetic_sources(const config::Job& job, SyntheticCounts counts, MakeBatch make,
                          Weigh weigh, Weigh work = {});
Sources synthetic_sources(const config::Job& job, MakeBatch make, Weigh weigh = {});

}  // namespace trireme::loaders
