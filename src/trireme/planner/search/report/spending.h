// Spending: what training on so many tokens takes of time, energy and money with one layout.
#pragma once

#include <optional>
#include <vector>

#include "trireme/planner/hardware/money.h"
#include "trireme/planner/hardware/uncertainty.h"
#include "trireme/planner/search/search.h"

namespace trireme::planner {

struct Spending {
  double tokens = 0;
  double steps = 0;
  double useful_hours = 0;  // if nothing stopped it and checkpoints were free
  double mttf_s = 0;        // infinite: the cluster names no failures
  double checkpoint_bytes = 0;
  double checkpoint_rate = 0;  // bytes a second of one host
  bool assumed = false;        // the cluster names none: as on the machines that publish theirs
  Checkpointing checkpoint;
  Goodput goodput;
  double hours = 0;  // with stops and checkpoints
  double gpu_hours = 0;
  double kwh = 0;
  double reducers = 0;  // dollars an hour of reduction servers, which no offer has
  // The cheapest of each kind, where the cluster has prices.
  std::optional<Offer> on_demand;
  std::optional<Offer> spot;
  std::optional<Mix> in_time;  // the cheapest that ends by the deadline
};

// Checkpoints hold stepped parameters and optimizer states, and are written by all hosts, asynchronously where the job
// has checkpoint.async. Throws Error{kUsage} where no offer ends within `deadline_hours`; 0 means no deadline.
Spending spending(const Question& question, const Option& option, double tokens,
                  double deadline_hours = 0);

}  // namespace trireme::planner
