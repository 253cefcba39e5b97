// Starts the ranks of this host as child processes and stays with them until the last has ended.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/elastic/verdict.h"

namespace trireme::elastic {

struct Launch {
  std::vector<std::string> command;  // an absolute path and its arguments, equal for all ranks
  std::vector<std::string>
      environment;  // "KEY=VALUE"; torchrun's names for the rank are set on top
  int ranks = 1;
  std::string address = "127.0.0.1";
  int port = 0;
  double grace_s = 5;  // after a failure the others have this long to end by themselves
  // A line that a rank other than 0 wrote; rank 0 writes where the caller does.
  std::function<void(int rank, std::string_view line)> on_line;
};

// Runs the ranks; returns when none is left, whatever happened. SIGINT and SIGTERM sent to the
// caller go to every rank once; a second SIGINT kills them. The ranks die with the calling thread.
// Must be called while the process has one thread. Throws Error{kUsage} when a rank cannot be
// started.
Outcome run(const Launch& launch);

}  // namespace trireme::elastic
