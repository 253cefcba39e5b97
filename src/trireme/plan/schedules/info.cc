#include "trireme/plan/schedules/info.h"

#include <algorithm>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/plan/schedules/fixed.h"
#include "trireme/plan/schedules/search.h"

namespace trireme::schedules {
namespace {

InFlight one_f_one_b_flight(const Pipe& pipe, Place place) {
  switch (place) {
    case Place::kFirst: return {.kept = pipe.ranks};
    case Place::kMiddle: return {.kept = pipe.ranks - 1};
    case Place::kLast: break;
  }
  return {.kept = 1};
}

InFlight interleaved_flight(const Pipe& pipe, Place place) {
  const double ahead = place == Place::kLast ? 0 : 2 * (pipe.ranks - 1);
  return {.kept = (ahead + (pipe.chunks - 1) * pipe.ranks + 1) / pipe.chunks};
}

std::string whole_groups(int ranks, int micro_batches) {
  const std::string smaller =
      micro_batches < ranks ? "" : fmt::format("{} or ", micro_batches / ranks * ranks);
  return fmt::format(
      "interleaved on {} pipeline ranks takes micro-batches in groups of {}, not {}: take {}{}",
      ranks, ranks, micro_batches, smaller, (micro_batches / ranks + 1) * ranks);
}

std::string twice_the_ranks(int ranks, int micro_batches) {
  return fmt::format(
      "dualpipe_v on {} pipeline ranks takes at least {} micro-batches, not {}: take {}, or zb_v",
      ranks, 2 * ranks, micro_batches, 2 * ranks);
}

// Ranks that wait for the first forward to reach them and for the last backward to leave them.
double plain_bubble(const Pipe& pipe, const TurnTimes& turn) {
  return (pipe.ranks - 1) * turn.all / pipe.chunks;
}

// All ranks meet at the end of a step, so that the last one's first forward is waited for, whatever fills the rest.
double h1_bubble(const Pipe& pipe, const TurnTimes& turn) {
  return (pipe.ranks - 1) * std::max(turn.all - 2 * turn.weight, turn.forward);
}
double h2_bubble(const Pipe& pipe, const TurnTimes& turn) {
  return (pipe.ranks - 1) * std::max(turn.all - 3 * turn.weight, turn.forward);
}
double v_bubble(const Pipe& pipe, const TurnTimes& turn) {
  return (pipe.ranks - 1) * std::max(turn.all - 3 * turn.weight, turn.forward / 2);
}
double limited_bubble(const Pipe& pipe, const TurnTimes& turn) {
  return std::max({(pipe.ranks - 1) * (turn.all - 3 * turn.weight),
                   (pipe.ranks - 1) * turn.forward / 2,
                   pipe.ranks * (1 - pipe.activation_limit) * turn.all});
}

InFlight half_waits(const Pipe& pipe, Place) {
  return {.kept = pipe.ranks / 2, .waiting = pipe.ranks / 2};
}

const std::vector<ScheduleInfo>& table() {
  static const std::vector<ScheduleInfo> rows = {
      {.name = "gpipe",
       .forwards_first = true,
       .row = [](const ScheduleShape& s,
                 int rank) { return gpipe_row(s.ranks, s.micro_batches, rank); },
       .in_flight = [](const Pipe& pipe, Place) { return InFlight{.kept = pipe.micro_batches}; },
       .bubble = plain_bubble},
      {.name = "1f1b",
       .proposed = true,
       .compared = true,
       .complexity = 0,
       .row = [](const ScheduleShape& s,
                 int rank) { return one_f_one_b_row(s.ranks, s.micro_batches, rank); },
       .in_flight = one_f_one_b_flight,
       .bubble = plain_bubble},
      {.name = "interleaved",
       .chunks = 2,
       .more_chunks = true,
       .proposed = true,
       .compared = true,
       .complexity = 1,
       .row = [](const ScheduleShape& s,
                 int rank) { return interleaved_row(s.ranks, s.chunks, s.micro_batches, rank); },
       .takes = [](int ranks, int micro_batches) { return micro_batches % ranks == 0; },
       .instead = whole_groups,
       .in_flight = interleaved_flight,
       .bubble = plain_bubble},
      {.name = "zb_h1",
       .halves = true,
       .proposed = true,
       .compared = true,
       .row = [](const ScheduleShape& s,
                 int rank) { return zb_h1_row(s.ranks, s.micro_batches, rank); },
       .in_flight =
           [](const Pipe& pipe, Place place) {
             const bool last = place == Place::kLast;
             return InFlight{.kept = last ? 1 : pipe.ranks, .waiting = last ? pipe.ranks - 1 : 0};
           },
       .bubble = h1_bubble},
      {.name = "zb_h2",
       .halves = true,
       .proposed = true,
       .row = [](const ScheduleShape& s,
                 int rank) { return zb_h2_row(s.ranks, s.micro_batches, rank); },
       .in_flight =
           [](const Pipe& pipe, Place place) {
             const bool last = place == Place::kLast;
             return InFlight{.kept = last ? 1 : 2 * pipe.ranks - 1,
                             .waiting = last ? 2 * pipe.ranks - 2 : 0};
           },
       .bubble = h2_bubble},
      {.name = "zb_auto",
       .limited = true,
       .halves = true,
       .search = search_zero_bubble,
       .in_flight = half_waits,
       .bubble = h2_bubble},
      {.name = "zb_v",
       .placement = Placement::kV,
       .chunks = 2,
       .halves = true,
       .proposed = true,
       .compared = true,
       .search = search_zb_v,
       .in_flight = half_waits,
       .bubble = v_bubble},
      {.name = "v_half",
       .placement = Placement::kV,
       .chunks = 2,
       .halves = true,
       .proposed = true,
       .search = search_v_half,
       .in_flight =
           [](const Pipe& pipe, Place) {
             return InFlight{.kept = pipe.ranks / 4 + 1, .waiting = pipe.ranks / 4};
           },
       .bubble = [](const Pipe& pipe,
                    const TurnTimes& turn) { return (pipe.ranks - 1) * turn.all / 2; }},
      {.name = "v_min",
       .placement = Placement::kV,
       .chunks = 2,
       .halves = true,
       .proposed = true,
       .search = search_v_min,
       .in_flight =
           [](const Pipe& pipe, Place) {
             return InFlight{.kept = pipe.ranks / 6 + 1, .waiting = pipe.ranks / 6 + 1};
           },
       .bubble = [](const Pipe& pipe,
                    const TurnTimes& turn) { return (pipe.ranks - 1) * turn.all * 2 / 3; }},
      {.name = "v_auto",
       .placement = Placement::kV,
       .chunks = 2,
       .limited = true,
       .halves = true,
       .search = search_v_auto,
       .in_flight =
           [](const Pipe& pipe, Place) {
             const double held = pipe.activation_limit * pipe.ranks / 2;
             return InFlight{.kept = held, .waiting = held};
           },
       .bubble = limited_bubble},
      {.name = "dualpipe_v",
       .placement = Placement::kV,
       .chunks = 2,
       .row = [](const ScheduleShape& s,
                 int rank) { return dualpipe_v_row(s.ranks, s.micro_batches, rank); },
       .takes = [](int ranks, int micro_batches) { return micro_batches >= 2 * ranks; },
       .instead = twice_the_ranks,
       .in_flight =
           [](const Pipe& pipe, Place place) {
             return InFlight{.kept = place == Place::kLast ? 1 : pipe.ranks};
           },
       .bubble = plain_bubble},
  };
  return rows;
}

}  // namespace

std::span<const ScheduleInfo> all_schedules() { return table(); }

const ScheduleInfo& info(Schedule schedule) {
  TRIREME_CHECK(schedule != Schedule::kGiven, "a given schedule has a grid already");
  return table()[static_cast<std::size_t>(schedule)];
}

std::optional<Rival> rival_of(Schedule schedule) {
  if (schedule == Schedule::kZbH2)
    return Rival{Schedule::kZbH1,
                 "steps that begin on a rank before others have ended the last one, but here all "
                 "meet at the gradient norm"};
  if (schedule == Schedule::kDualPipeV)
    return Rival{Schedule::kZbV,
                 "exchanges of experts that overlap with another micro-batch, and no node has any"};
  return std::nullopt;
}

std::string names_where(bool (*holds)(const ScheduleInfo&)) {
  std::vector<std::string_view> names;
  for (const ScheduleInfo& row : table())
    if (holds(row)) names.push_back(row.name);
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 == names.size() ? " and " : ", ", names[i]);
  return text;
}

InFlight in_flight(Schedule schedule, const Pipe& pipe, Place place) {
  InFlight most = info(schedule).in_flight(pipe, place);
  most.kept = std::min(most.kept, pipe.micro_batches);
  most.waiting = std::min(most.waiting, pipe.micro_batches - most.kept);
  return most;
}

}  // namespace trireme::schedules
