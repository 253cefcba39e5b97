// Forecast and measurement of one step in one picture.
#pragma once

#include <string>

#include "trireme/base/fs.h"
#include "trireme/plan/simulate/measured.h"
#include "trireme/plan/simulate/pictures/timeline.h"

namespace trireme::simulate::pictures {

// Writes three files into `directory`, replacing existing ones. trace.json: every rank as measured, and the forecast of
// the stages' first ranks as processes after the world. timeline.svg: for these ranks the measured row above the
// forecast. node_costs.json: input of `parallel.costs`. `times` are the ranks' raw times of step `step`, counted from
// 1. Throws Error{kData} when a file cannot be written.
void write_timeline(const Path& directory, const plan::PlanSet& plan, const Forecast& forecast,
                    const RankTimes& times, std::int64_t step);

}  // namespace trireme::simulate::pictures
