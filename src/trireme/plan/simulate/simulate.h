// Forecast of a step: when every line of every list starts and ends, and what it waits for.
#pragma once

#include <functional>
#include <vector>

#include "trireme/plan/memory.h"
#include "trireme/plan/plan.h"
#include "trireme/plan/simulate/cost.h"
#include "trireme/plan/simulate/shared_cores.h"

namespace trireme::simulate {

struct LineTime {
  double start = 0;  // seconds from the start of the step
  double end = 0;
  double waited = 0;  // of it, where it was measured: for other ranks, within the line
};

// A line of a list; none where list is -1.
struct LineRef {
  int list = -1;
  int line = -1;
  bool operator==(const LineRef&) const = default;
};

// Forecast of the ranks that run one list.
struct ListForecast {
  std::vector<LineTime> lines;
  // The cause of each line's start: the previous of its queue, one of its `after`, or the line that delayed a partner.
  // Empty for lines that start with the step.
  std::vector<LineRef> cause;
  double comp_busy_s = 0;    // the compute lane works, and does not wait within a line
  double nodes_busy_s = 0;   // of it: forwards and backwards
  double nodes_first_s = 0;  // the first of these starts
  double nodes_span_s = 0;   // and from there to the end of the last
  double exposed_comm_s =
      0;  // the compute lane waits for a communication, between lines or within one
  double exposed_transfers_s = 0;  // of it: for one between stages; the rest is collectives
  double exposed_offload_s = 0;    // it waits for what leaves memory or comes back
  double bubble_fraction = 0;      // share of the step in which the compute lane is idle
  double sent_bytes = 0;           // by one rank
  plan::MemoryAccount memory;
};

struct Forecast {
  std::vector<ListForecast> lists;
  double step_s = 0;
  double bubble_fraction = 0;  // over all ranks
  // As Qi et al. 2023 count it: without what follows the last backward, against the rank that is busy longest.
  double pipeline_bubble = 0;
  double comp_busy_s = 0;  // mean over ranks, as are the next three
  double exposed_comm_s = 0;
  double exposed_transfers_s = 0;
  double exposed_offload_s = 0;
  std::int64_t peak_bytes = 0;  // of the rank that needs most
};

// Cost of a line on a rank.
using LineCost = std::function<LineSeconds(int rank, const plan::Instr& line)>;

// Runs a valid plan like the executor: one walk per rank in list order, compute and grad_norm in place, other lanes as
// concurrent queues. A collective or transfer starts when all participants have reached it. Exact for the given costs.
Forecast simulate(const plan::PlanSet& plan, const LineCost& cost);
Forecast simulate(const plan::PlanSet& plan, const CostModel& model);

// The same on shared cores. Every line uses its ranks' cores for its seconds, collectives included, as for ranks that
// are threads or processes of one host.
Forecast simulate(const plan::PlanSet& plan, const LineCost& cost, const Cores& cores);

}  // namespace trireme::simulate
