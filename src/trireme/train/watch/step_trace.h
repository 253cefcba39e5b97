// Implementation of run.trace: one step as it ran, with its forecast.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/comm/world.h"
#include "trireme/exec/executor.h"
#include "trireme/plan/simulate/simulate.h"

namespace trireme::train {

// Collective: gathers the times of all ranks' lines; rank 0 writes RUNDIR's trace.json, timeline.svg and
// node_costs.json. `step` counts from 1.
void write_step_trace(const Path& out, const plan::PlanSet& plan,
                      const simulate::Forecast& forecast, const std::vector<exec::LineTime>& mine,
                      std::int64_t step, comm::World& world);

}  // namespace trireme::train
