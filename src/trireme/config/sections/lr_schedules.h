// The list of learning-rate schedules.
#pragma once

// Each with its name and the spelling of optim.schedule. optim/schedule.cc has a function <spelling>_rate for each.
#define TRIREME_LR_SCHEDULES(SCHEDULE) \
  SCHEDULE(Constant, constant)         \
  SCHEDULE(Linear, linear)             \
  SCHEDULE(Cosine, cosine)             \
  SCHEDULE(Wsd, wsd)                   \
  SCHEDULE(InverseSqrt, inverse_sqrt)

namespace trireme::config {

#define SCHEDULE(name, key) k##name,
enum class LrSchedule { TRIREME_LR_SCHEDULES(SCHEDULE) };
#undef SCHEDULE

struct LrScheduleInfo {
  LrSchedule schedule;
  const char* key;
};

#define SCHEDULE(name, key) {LrSchedule::k##name, #key},
inline constexpr LrScheduleInfo kLrSchedules[] = {TRIREME_LR_SCHEDULES(SCHEDULE)};
#undef SCHEDULE

}  // namespace trireme::config
