// Schedules that are searched: many runs on the shape's clock, of which the shortest wins. Its length is
// GridTimes::longest_rank, or makespan with a barrier; among equals the first one wins.
#pragma once

#include "trireme/plan/schedules/grid.h"

namespace trireme::schedules {

// The automatic zero-bubble search of Qi et al. 2023 under ScheduleShape::activation_limit.
Grid search_zero_bubble(const ScheduleShape& shape);

// Within the memory of each: as 1F1B, about half of it, about a third of it (Qi et al. 2023 and 2024).
Grid search_zb_v(const ScheduleShape& shape);
Grid search_v_half(const ScheduleShape& shape);
Grid search_v_min(const ScheduleShape& shape);

// The same search under ScheduleShape::activation_limit.
Grid search_v_auto(const ScheduleShape& shape);

}  // namespace trireme::schedules
