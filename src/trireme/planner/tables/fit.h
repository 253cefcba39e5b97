// Fit: the few constants that measurements decide, found again from the rows at hand.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/planner/tables/runs.h"

namespace trireme::planner::tables {

// A constant of every cluster with this GPU, or of one cluster's tier.
struct Constant {
  std::string name;                     // "a100-sxm-80 gemm", "jean-zay omnipath"
  std::function<double*(Cluster&)> in;  // none of a cluster that does not have it
  double low = 0;
  double high = 1;
};

// Seconds of a run on its cluster: of the settings that it leaves open the fastest.
double forecast(const Run& run, const std::vector<Cluster>& clusters);

// Root of the mean of squared log(forecast / measured), each table weighing alike.
double misfit(const std::vector<std::vector<Run>>& tables, const std::vector<Cluster>& clusters);

// An evolution strategy of one parent and one child (Rechenberg 1973): all constants move at once, by factors whose width
// grows with success and shrinks without. The same draws every time.
void fit(const std::vector<std::vector<Run>>& tables, const std::vector<Constant>& constants,
         std::vector<Cluster>& clusters, int trials = 2000);

}  // namespace trireme::planner::tables
