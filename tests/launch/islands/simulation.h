// A day of elastic islands in one thread: the real state machines of leader and islands over links, clocks and crashes
// that one seed decides about. A step adds 1 to every weight of an island and merges add differences, so all work can be
// counted.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::islands {

struct Weather {
  int islands = 3;
  double hours = 24;
  double crash_hours = 2;    // mean time between crashes of an island
  double suspend_hours = 6;  // and between suspensions of islands, and of the leader
  double slow = 0.05;        // share of islands with links ten times as slow
  double half = 0;           // share of islands that compute at half speed
  int quorum = 0;
};

struct Day {
  std::string wrong{};  // empty, or an error and its time
  std::int64_t events = 0, merges = 0, contributions = 0, steps = 0, waits = 0, late = 0,
               adopted = 0, crashes = 0, leaves = 0;
  int behind = 0;        // islands that lack more than 100 entries at the end
  std::int64_t lag = 0;  // most rounds of a fragment that an island was not in, one after another
  double speed = 1;      // least share of its time that an island of full speed trains
};
Day live(std::uint64_t seed, const Weather& weather);

}  // namespace trireme::islands
