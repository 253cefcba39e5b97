// Retiming: sums of a list's forecast over its lines' times, recomputed where ranks share cores.
#pragma once

#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/plan/simulate/shared_cores.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {

// Counts a line of the compute lane; what it waits for communication, by `seconds`, is exposed and not computing.
void busy(ListForecast& list, const plan::Instr& line, double start, double end,
          const LineSeconds& seconds = 0);

// A wait for a communication is exposed communication for as long as that was running; likewise for offload.
void expose(ListForecast& list, const plan::Instr& communication, const LineTime& blocking,
            double waited);

// Replaces the times of lines alone by those of tasks, and recomputes the results. `tasks`: of every list by line.
void retime(const plan::PlanSet& plan, const std::vector<TaskTime>& times,
            const std::vector<std::vector<int>>& tasks, Forecast& forecast);

}  // namespace trireme::simulate
