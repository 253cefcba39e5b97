// A line of a run directory's events.jsonl: one fault, found by any process.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace trireme::formats {

inline constexpr char kEventsName[] = "events.jsonl";

struct Event {
  std::string kind;       // "rank killed", "not finite": the line's `class`
  int rank = -1;          // rank where it began; -1: unknown, or none
  std::string host{};     // of that rank
  std::int64_t step = 0;  // the one that could not be finished, or was passed over; 1-based
  std::string op{};       // operation in progress
  std::string cause{};    // in a few words
  std::string action{};   // what was done about it
  double lost_s = 0;      // of the run's time
  std::optional<std::uint64_t> generation{};  // of a launched run
};

// JSON, without newline; the time in UTC.
std::string event_line(const Event& event, std::chrono::system_clock::time_point time);

}  // namespace trireme::formats
