// Keys of attentive probes.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::config {

struct Probe {
  std::int64_t layers = 4;  // the last one attends across
  std::int64_t heads = 16;
  std::string lr;             // factors of optim.lr, one a probe; empty: one probe
  std::string weight_decay;   // factors of optim.weight_decay, each with every rate; empty: all 1
  std::int64_t augment = 0;   // random operations on a clip, which is then erased in part as well
  std::int64_t segments = 1;  // clips of a sample, whose tokens follow one another
  std::int64_t views = 1;     // crops of a held-out sample, whose probabilities are averaged
  bool operator==(const Probe&) const = default;
};

struct ProbeSections {
  Probe probe;
  bool operator==(const ProbeSections&) const = default;
};

}  // namespace trireme::config
