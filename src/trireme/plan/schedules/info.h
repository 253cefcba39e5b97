// The table of pipeline schedules: everything that distinguishes one from another, one row each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/plan/schedules/grid.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::schedules {

// A pipeline, as closed forms see it.
struct Pipe {
  double ranks = 1, micro_batches = 1, chunks = 1;
  double activation_limit = 1;  // parallel.activation_limit
};

enum class Place { kFirst, kMiddle, kLast };  // of a rank in the pipeline

// Maximum number of micro-batches that a rank holds, in units of its whole share: those between forward and backward,
// and those between input backward and weight backward.
struct InFlight {
  double kept = 0;
  double waiting = 0;
};

// Seconds of one micro-batch on a rank of the mean length: all, of that its weight backward, and its forward.
struct TurnTimes {
  double all = 0, weight = 0, forward = 0;
};

struct ScheduleInfo {
  std::string_view name;  // as a job spells it
  Placement placement = Placement::kLoop;
  int chunks = 1;               // virtual stages of a rank
  bool more_chunks = false;     // a job may ask for more than that
  bool forwards_first = false;  // no backward before the last forward
  bool limited = false;         // searched within parallel.activation_limit
  bool halves =
      false;  // weight backwards fill the bubble, so that few micro-batches are bound by input backwards alone
  bool proposed = false;  // the planner tries it without being asked
  bool compared = false;  // and names what it would cost when it explains its choice
  int complexity = 2;     // what decides between equals: the simpler

  // An order that follows from counts, or one that is searched; one of them is there.
  Row (*row)(const ScheduleShape& shape, int rank) = nullptr;
  Grid (*search)(const ScheduleShape& shape) = nullptr;

  // Whether these counts can be scheduled; null: any. `instead` says what is wrong with them and which can.
  bool (*takes)(int ranks, int micro_batches) = nullptr;
  std::string (*instead)(int ranks, int micro_batches) = nullptr;

  // Closed forms for screening. InFlight is not yet bounded by the micro-batches there are.
  InFlight (*in_flight)(const Pipe& pipe, Place place) = nullptr;
  double (*bubble)(const Pipe& pipe, const TurnTimes& turn) = nullptr;  // seconds a step
};

// In the order of Schedule, all but kGiven.
std::span<const ScheduleInfo> all_schedules();
const ScheduleInfo& info(Schedule schedule);  // not of kGiven

// A schedule that takes as long with less memory, unless there is what the other gains by.
struct Rival {
  Schedule schedule = Schedule::k1F1B;
  std::string_view gains_by{};
};
std::optional<Rival> rival_of(Schedule schedule);

// "zb_auto and v_auto": those that hold.
std::string names_where(bool (*holds)(const ScheduleInfo&));

// Bounded by the micro-batches there are.
InFlight in_flight(Schedule schedule, const Pipe& pipe, Place place);

}  // namespace trireme::schedules
