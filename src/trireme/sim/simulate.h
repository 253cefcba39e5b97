// Forecast of a step: when every line of every list starts and ends.
#pragma once

#include <functional>
#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/sim/cost.h"

namespace trireme::sim {

struct LineTime {
  double start = 0;  // seconds from the start of the step
  double end = 0;
};

// Of the ranks that run one list.
struct ListForecast {
  std::vector<LineTime> lines;
  double comp_busy_s = 0;     // the compute lane works
  double exposed_comm_s = 0;  // it waits for a communication that is running
  double sent_bytes = 0;      // by one rank
};

struct Forecast {
  std::vector<ListForecast> lists;
  double step_s = 0;
  double bubble_fraction =
      0;  // share of the step in which compute lanes stand idle, over all ranks
};

// Seconds of a line on a rank.
using LineCost = std::function<double(int rank, const plan::Instr& line)>;

// Runs a valid plan as the executor does: one walk per rank in list order, compute and grad_norm in
// place, other lanes as queues beside it; a collective or transfer starts when all who take part have
// come to it. Exact for the given costs.
Forecast simulate(const plan::PlanSet& plan, const LineCost& cost);
Forecast simulate(const plan::PlanSet& plan, const CostModel& model);

}  // namespace trireme::sim
