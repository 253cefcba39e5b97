// Metrics for people from the counts of loss nodes: each sum divided by its total.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "trireme/exec/block.h"

namespace trireme::train {

// By name, in the order of ModelSpec::metrics.
using Metrics = std::vector<std::pair<std::string, double>>;

class MetricSums {
 public:
  explicit MetricSums(const std::vector<std::string>& names) : names_(names), sums_(names.size()) {}

  void add(const std::vector<exec::Counts::Count>& counts) {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      sums_[i].sum += counts[i].sum;
      sums_[i].of += counts[i].of;
    }
  }
  // Without those that nothing was counted of.
  Metrics values() const {
    Metrics values;
    for (std::size_t i = 0; i < sums_.size(); ++i)
      if (sums_[i].of != 0) values.emplace_back(names_[i], sums_[i].sum / sums_[i].of);
    return values;
  }

 private:
  const std::vector<std::string>& names_;
  std::vector<exec::Counts::Count> sums_;
};

}  // namespace trireme::train
