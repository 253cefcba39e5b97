#include "trireme/planner/tables/fit.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "trireme/base/error.h"

namespace trireme::planner::tables {

double forecast(const Run& run, const std::vector<Cluster>& clusters) {
  const auto cluster = std::ranges::find(clusters, run.cluster, &Cluster::name);
  TRIREME_CHECK(cluster != clusters.end(), "cluster {}", run.cluster);
  double best = INFINITY;
  for (const Candidate& candidate : run.candidates)
    best = std::min(best, candidate.step_seconds(*cluster));
  return best * run.scale;
}

double misfit(const std::vector<std::vector<Run>>& tables, const std::vector<Cluster>& clusters) {
  double sum = 0;
  for (const std::vector<Run>& runs : tables) {
    double table = 0;
    int count = 0;
    for (const Run& run : runs) {
      if (!run.unscored.empty()) continue;
      const double apart = std::log(forecast(run, clusters) / run.seconds);
      table += apart * apart;
      ++count;
    }
    sum += std::sqrt(table / std::max(count, 1));
  }
  return sum / static_cast<double>(std::max<std::size_t>(tables.size(), 1));
}

void fit(const std::vector<std::vector<Run>>& tables, const std::vector<Constant>& constants,
         std::vector<Cluster>& clusters, int trials) {
  const auto set = [&](const Constant& constant, double value) {
    for (Cluster& cluster : clusters)
      if (double* at = constant.in(cluster)) *at = value;
  };
  const auto value_of = [&](const Constant& constant) {
    for (Cluster& cluster : clusters)
      if (const double* at = constant.in(cluster)) return *at;
    TRIREME_CHECK(false, "no cluster has {}", constant.name);
  };
  std::mt19937_64 draw(1);
  std::normal_distribution<double> normal;
  std::vector<double> at;
  for (const Constant& constant : constants) at.push_back(value_of(constant));
  double best = misfit(tables, clusters), width = 0.1;
  for (int trial = 0; trial < trials; ++trial) {
    std::vector<double> tried = at;
    for (std::size_t i = 0; i < constants.size(); ++i) {
      tried[i] = std::clamp(at[i] * std::exp(width * normal(draw)), constants[i].low, constants[i].high);
      set(constants[i], tried[i]);
    }
    const double now = misfit(tables, clusters);
    const bool better = now < best;
    if (better) {
      best = now;
      at = std::move(tried);
    }
    width = std::clamp(width * (better ? 1.5 : 0.92), 1e-3, 0.5);
  }
  for (std::size_t i = 0; i < constants.size(); ++i) set(constants[i], at[i]);
}

}  // namespace trireme::planner::tables
