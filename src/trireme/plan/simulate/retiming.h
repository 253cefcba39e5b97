// Retiming: what a list's forecast counts of its lines' times, and the same anew where ranks share cores.
#pragma once

#include <vector>

#include "trireme/plan/plan.h"
#include "trireme/plan/simulate/shared_cores.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::simulate {

// Counts a line of the compute lane; what it waits for communication, by `seconds`, is exposed and not computing.
void busy(ListForecast& list, const plan::Instr& line, double start, double end,
          const LineSeconds& seconds = 0);

// A wait behind a communication is exposed communication, as far as that was running; so with offload.
void expose(ListForecast& list, const plan::Instr& behind, const LineTime& blocking, double waited);

// Puts the times of tasks in the place of those that lines have alone, and counts anew what follows from them.
// `tasks`: of every list by line.
void retime(const plan::PlanSet& plan, const std::vector<TaskTime>& times,
            const std::vector<std::vector<int>>& tasks, Forecast& forecast);

}  // namespace trireme::simulate
