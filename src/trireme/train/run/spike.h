// Spikes of the training loss, found by a robust z-score: (loss - median) / (1.4826 MAD) of the losses before it. MAD
// is the median of their distances from the median (Rousseeuw & Croux 1993).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::train {

struct SpikeRule {
  double zscore = 0;          // minimum z-score of a spike; 0: no detection
  std::int64_t window = 100;  // losses that one is compared with; half as many are enough
};

struct Spike {
  std::int64_t step = 0;  // it begins with, from 1
  double loss = 0;        // nats per token
  double median = 0;      // of those before it
  double zscore = 0;
};

// State of a detector between steps; checkpoints keep it.
struct SpikeState {
  std::vector<double> losses{};  // finite, oldest first
  bool high = false;             // a spike has begun and is not over
  std::int64_t rewinds = 0;      // since a step was reached that none came from
  std::int64_t furthest = 0;     // of the spikes that they came from, the last step
  bool operator==(const SpikeState&) const = default;
};

class SpikeDetector {
 public:
  explicit SpikeDetector(SpikeRule rule) : rule_(rule) {}

  // The loss of the step-th step, from 1, which has updated parameters; others are not judged. Gives the spike that
  // begins with it. A loss that stays high is one spike, and normal once it is half the window.
  std::optional<Spike> judge(std::int64_t step, double loss);

  // Continues from an earlier state because of a spike.
  void rewind(const SpikeState& earlier, const Spike& spike);

  const SpikeState& state() const { return state_; }
  void restore(const SpikeState& state);

 private:
  void keep(double loss);

  SpikeRule rule_;
  SpikeState state_;
};

}  // namespace trireme::train
