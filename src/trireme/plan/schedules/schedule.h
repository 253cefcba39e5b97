// Pipeline schedules: pure functions from a shape to a grid. info.h has their table, docs/pipeline.md compares them.
#pragma once

#include <optional>
#include <string_view>

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

enum class Schedule {
  kGpipe,
  k1F1B,
  kInterleaved,
  kZbH1,
  kZbH2,
  kZbAuto,
  kZbV,
  kVHalf,
  kVMin,
  kVAuto,
  kDualPipeV,
  kGiven,  // a grid from elsewhere, such as a file
};
inline constexpr int kScheduleCount = static_cast<int>(Schedule::kGiven);

// As jobs spell it; "given".
std::string_view name(Schedule schedule);
std::optional<Schedule> schedule_of(std::string_view name);

// Not of kGiven.
Placement placement_of(Schedule schedule);

// Chunks of a rank when a job asks for `virtual_stages` of them, 0 for the schedule's own count. It is 1, or 2 for the
// V shapes, or for interleaved any number from 2. Throws Error{kUsage} for others.
int chunks_of(Schedule schedule, int virtual_stages);

// Throws Error{kUsage} for counts that the schedule cannot take, naming the nearest that it can.
Grid make_grid(Schedule schedule, const ScheduleShape& shape);

}  // namespace trireme::schedules
