// The rank that the others wait for: activity of silent ranks, and the ranks that they wait for, as one verdict. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/launch/watch/state.h"

namespace trireme::watch {

struct Silent {
  State state;
  double seconds = 0;
  bool in_step = false;  // of which it is known how long its lines take
};

struct Hang {
  std::vector<int>
      ranks;  // that keep the others waiting; those of a deadlock in the order in which they wait
  bool deadlock = false;  // they wait for each other
  bool final = false;     // nothing that these ranks do can end it
  bool in_step = false;   // where nothing takes this long
  double seconds = 0;     // how long the first of them has been silent
  std::int64_t step = 0;
  std::string op;     // what the first of them is at
  std::string cause;  // one line
};

// `silent`: the silent ranks of the world; all others continue. A waiting rank is not blamed as long as a rank that it
// may wait for continues, or all wait inside one operation: then its data is in transit, or lost.
std::optional<Hang> judge(const std::map<int, Silent>& silent, int world);

// Lines for people: activity of every rank, and the ranks that it waits for.
std::vector<std::string> describe(const std::map<int, Silent>& silent, int world);

}  // namespace trireme::watch
