// Fit: the few constants that measurements decide, found again from the rows at hand.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/scoreboard/board.h"
#include "bench/scoreboard/runs.h"

namespace trireme::scoreboard {

// A constant of every cluster with GPUs of one kind, or of some clusters' tier.
struct Constant {
  std::string name;                     // "a100: gemm", "jean-zay: omnipath"
  std::function<double*(Cluster&)> in;  // none of a cluster that does not have it
  double low = 0.01;
  double high = 1;
  double expected = 0.8;  // before any run is seen
  double spread = 1;      // of its logarithm about that
};
// All that is fitted: the efficiencies of A100 and H100, and of the tiers that their runs went over.
std::vector<Constant> fitted_constants();

// The shipped clusters that runs name, once each.
std::vector<Cluster> clusters_of(const std::vector<Run>& runs);

// Seconds of a run on its cluster: of the settings that it leaves open the fastest. Estimated by stages, or of the estimate's
// choice the plan simulated.
double estimated(const Run& run, const std::vector<Cluster>& clusters);
double simulated(const Run& run, const std::vector<Cluster>& clusters);

Case step_time_case(const Run& run, const std::vector<Cluster>& clusters,
                    double (*forecast)(const Run&, const std::vector<Cluster>&));

// The tables that constants are fitted on, by name, as far as the directory has them. Runs that no fit can tell anything
// from are left out (Run::apart, docs/planner.md).
std::map<std::string, std::vector<Run>> fitted_runs(const std::string& directory);

// Sum of losses of log(forecast / measured) (tables/descent.h), each by what its table is held to and by the root of the
// number of its runs.
double misfit(const std::map<std::string, std::vector<Run>>& tables,
              const std::vector<Cluster>& clusters);

// Moves constants to where misfit and their distance to what is expected of them is least, in at most so many trials.
void fit(const std::map<std::string, std::vector<Run>>& tables,
         const std::vector<Constant>& constants, std::vector<Cluster>& clusters, int trials);

// The constants by name, fitted to the rows that the directory has from what is expected of them on.
std::vector<std::pair<std::string, double>> fit_again(const std::string& directory, int trials);

// Every run of every table forecast as on a GPU and links of which nothing was measured: by the defaults of hardware.h.
CasesByTable unmeasured_cases(const std::string& directory);

// Every run of every table forecast by constants that were fitted, from what is expected of them on, without its group and, for the sake of
// fewer fits, one of each other table; `progress` is told of each fit.
CasesByTable left_out_cases(const std::string& directory, int trials,
                            const std::function<void(const std::string&)>& progress);

}  // namespace trireme::scoreboard
