// Rules of a job: what is derived from its keys and what they must satisfy together, as one list that resolve() runs.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::config {

// Ranks and data set that a job is resolved for.
struct Given {
  int world = 1;
  DatasetFacts data;
};

using Check = std::function<void(const Job&)>;

struct Rule {
  std::string_view id;
  Check check{};  // throws Error{kUsage} with the value seen, the value needed and a way out
  std::function<bool(const Job&)> when{};            // jobs that are checked; null: all
  void (*fill)(Job&, const Given&) = nullptr;        // sets derived values, before the check
  void (*fits)(const Job&, const Given&) = nullptr;  // a check of what is given, as `check`
  std::optional<Family> family{};                    // whose rule it is; none: of all
};

// The rules of all families in their order: a rule reads what earlier ones have filled.
const std::vector<Rule>& rules();

void run(const Rule& rule, Job& job, const Given& given);

}  // namespace trireme::config
