#include "trireme/plan/schedules/schedule.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/info.h"

namespace trireme::schedules {
namespace {

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

}  // namespace

std::string_view name(Schedule schedule) {
  return schedule == Schedule::kGiven ? "given" : info(schedule).name;
}

std::optional<Schedule> schedule_of(std::string_view name) {
  const auto rows = all_schedules();
  const auto row = std::ranges::find(rows, name, &ScheduleInfo::name);
  if (row == rows.end()) return std::nullopt;
  return static_cast<Schedule>(row - rows.begin());
}

Placement placement_of(Schedule schedule) { return info(schedule).placement; }

int chunks_of(Schedule schedule, int virtual_stages) {
  const ScheduleInfo& row = info(schedule);
  const int own = row.chunks;
  if (virtual_stages == 0 || virtual_stages == own) return own;
  if (row.more_chunks) {
    if (virtual_stages > own) return virtual_stages;
    fail(ErrorKind::kUsage,
         "{} puts at least {} virtual stages on a pipeline rank, not {}: take {}, or 1f1b",
         row.name, own, virtual_stages, own);
  }
  fail(ErrorKind::kUsage, "{} puts {} on a pipeline rank, not {}: take {}, or interleaved{}",
       row.name, own == 1 ? "1 virtual stage" : "2 virtual stages", virtual_stages, own,
       own == 1 || virtual_stages > 2 ? "" : " or 1f1b");
}

Grid make_grid(Schedule schedule, const ScheduleShape& shape) {
  const ScheduleInfo& row = info(schedule);
  check_shape(schedule, shape);
  if (row.takes != nullptr && !row.takes(shape.ranks, shape.micro_batches))
    fail(ErrorKind::kUsage, "{}", row.instead(shape.ranks, shape.micro_batches));
  if (row.search != nullptr) return row.search(shape);
  Grid grid{
      .placement = row.placement, .chunks = shape.chunks, .micro_batches = shape.micro_batches};
  for (int rank = 0; rank < shape.ranks; ++rank) grid.rows.push_back(row.row(shape, rank));
  return grid;
}

}  // namespace trireme::schedules
