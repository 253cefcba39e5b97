// trireme plan: the best layouts of a job on a cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/trireme/commands.h"

namespace trireme::app {

struct PlanOptions {
  JobOptions job;
  std::string cluster;  // a name or a file
  std::string links;    // as of ExplainOptions
  std::optional<int> gpus;
  std::string by = "time";
  bool keep = false;
  int top = 5;
  std::vector<std::string> allow;  // approximate ways of communication
  std::optional<double> max_loss;  // percent
  std::optional<double> tokens;
  std::optional<double> deadline;  // hours
  bool expandable = false;
  std::string format = "table";
  std::string out;           // empty: no file
  std::string as = "today";  // or planned: the runtime that is priced on GPUs
  std::string json;          // empty: the table only
};

int plan(const PlanOptions& options);

}  // namespace trireme::app
