// Options of trireme train that make the run an island.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::app {

struct IslandOptions {
  std::string leader;  // HOST:PORT; in a replay the directory of a tape; empty: it is no island
  std::string number;  // "K/N"
  std::string token_file;
  std::string replay_run;  // a run on the tape, and the step after which it ends
  std::int64_t replay_last = 0;
};

}  // namespace trireme::app
