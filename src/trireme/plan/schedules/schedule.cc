#include "trireme/plan/schedules/schedule.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/fixed.h"
#include "trireme/plan/schedules/search.h"

namespace trireme::schedules {
namespace {

constexpr std::string_view kNames[] = {"gpipe", "1f1b",    "interleaved", "zb_h1",
                                       "zb_h2", "zb_auto", "zb_v",        "v_half",
                                       "v_min", "v_auto",  "dualpipe_v",  "given"};

void check_shape(Schedule schedule, const ScheduleShape& shape) {
  if (shape.ranks < 1 || shape.micro_batches < 1)
    fail(ErrorKind::kUsage,
         "a pipeline of {} ranks and {} micro-batches: it needs at least one of each", shape.ranks,
         shape.micro_batches);
  chunks_of(schedule, shape.chunks);
  TRIREME_CHECK(
      shape.stages.empty() || static_cast<int>(shape.stages.size()) == shape.ranks * shape.chunks,
      "{} stage costs for {} ranks of {} chunks", shape.stages.size(), shape.ranks, shape.chunks);
  for (const StageCost& cost : shape.stages)
    TRIREME_CHECK(cost.forward >= 0 && cost.input >= 0 && cost.weight >= 0 &&
                      std::isfinite(cost.forward + cost.input + cost.weight),
                  "a stage costs {}, {}, {}", cost.forward, cost.input, cost.weight);
  TRIREME_CHECK(shape.transfer >= 0 && std::isfinite(shape.transfer), "a transfer takes {}",
                shape.transfer);
  TRIREME_CHECK(shape.activation_limit >= 0 && shape.kept >= 0 && shape.kept <= 1,
                "an activation limit of {}, of which W keeps {}", shape.activation_limit,
                shape.kept);
}

void check_micro_batches(Schedule schedule, const ScheduleShape& shape) {
  const int p = shape.ranks, m = shape.micro_batches;
  if (schedule == Schedule::kInterleaved && m % p != 0) {
    const std::string smaller = m < p ? "" : fmt::format("{} or ", m / p * p);
    fail(ErrorKind::kUsage,
         "interleaved on {} pipeline ranks takes micro-batches in groups of {}, not {}: take {}{}",
         p, p, m, smaller, (m / p + 1) * p);
  }
  if (schedule == Schedule::kDualPipeV && m < 2 * p)
    fail(
        ErrorKind::kUsage,
        "dualpipe_v on {} pipeline ranks takes at least {} micro-batches, not {}: take {}, or zb_v",
        p, 2 * p, m, 2 * p);
}

Row fixed_row(Schedule schedule, const ScheduleShape& shape, int rank) {
  const int p = shape.ranks, m = shape.micro_batches;
  switch (schedule) {
    case Schedule::kGpipe: return gpipe_row(p, m, rank);
    case Schedule::k1F1B: return one_f_one_b_row(p, m, rank);
    case Schedule::kInterleaved: return interleaved_row(p, shape.chunks, m, rank);
    case Schedule::kZbH1: return zb_h1_row(p, m, rank);
    case Schedule::kZbH2: return zb_h2_row(p, m, rank);
    default: return dualpipe_v_row(p, m, rank);
  }
}

}  // namespace

std::string_view name(Schedule schedule) { return kNames[static_cast<int>(schedule)]; }

std::optional<Schedule> schedule_of(std::string_view name) {
  for (int i = 0; i < kScheduleCount; ++i)
    if (kNames[i] == name) return static_cast<Schedule>(i);
  return std::nullopt;
}

Placement placement_of(Schedule schedule) {
  TRIREME_CHECK(schedule != Schedule::kGiven, "a given schedule's grid has its placement");
  return schedule >= Schedule::kZbV ? Placement::kV : Placement::kLoop;
}

int chunks_of(Schedule schedule, int virtual_stages) {
  if (schedule == Schedule::kInterleaved) {
    if (virtual_stages == 0 || virtual_stages >= 2) return std::max(virtual_stages, 2);
    fail(ErrorKind::kUsage,
         "interleaved puts at least 2 virtual stages on a pipeline rank, not {}: take 2, or 1f1b",
         virtual_stages);
  }
  const int own = placement_of(schedule) == Placement::kV ? 2 : 1;
  if (virtual_stages == 0 || virtual_stages == own) return own;
  fail(ErrorKind::kUsage, "{} puts {} on a pipeline rank, not {}: take {}, or interleaved{}",
       name(schedule), own == 1 ? "1 virtual stage" : "2 virtual stages", virtual_stages, own,
       own == 1 || virtual_stages > 2 ? "" : " or 1f1b");
}

Grid make_grid(Schedule schedule, const ScheduleShape& shape) {
  TRIREME_CHECK(schedule != Schedule::kGiven, "a given schedule has a grid already");
  check_shape(schedule, shape);
  check_micro_batches(schedule, shape);
  switch (schedule) {
    case Schedule::kZbAuto: return search_zero_bubble(shape);
    case Schedule::kZbV: return search_zb_v(shape);
    case Schedule::kVHalf: return search_v_half(shape);
    case Schedule::kVMin: return search_v_min(shape);
    case Schedule::kVAuto: return search_v_auto(shape);
    default: break;
  }
  Grid grid{.placement = placement_of(schedule),
            .chunks = shape.chunks,
            .micro_batches = shape.micro_batches};
  for (int rank = 0; rank < shape.ranks; ++rank)
    grid.rows.push_back(fixed_row(schedule, shape, rank));
  return grid;
}

}  // namespace trireme::schedules
