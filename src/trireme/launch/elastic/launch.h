// The ranks of one host, once: what `elastic` is where nothing restarts.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/launch/elastic/membership.h"
#include "trireme/launch/elastic/verdict.h"
#include "trireme/launch/watch/silence.h"

namespace trireme::elastic {

struct Launch {
  std::vector<std::string> command;      // an absolute path and its arguments, equal for all ranks
  std::vector<std::string> environment;  // "KEY=VALUE"; what names the rank is set on top
  int ranks = 1;
  double grace_s = 5;  // after a failure the others have this long to end by themselves
  // A line that a rank other than 0 wrote; rank 0 writes where the caller does.
  std::function<void(int rank, std::string_view line)> on_line;
  std::function<Progress()> progress = [] { return Progress{}; };  // for events
  watch::Patience patience{.steps = 0};                            // as of an agent, and the rest
  double give_up_s = 25;
  std::vector<std::string> stack_command{};
  std::function<void(const std::string&)> on_note{};
  std::function<void(const Fault&)> on_fault{};
  std::function<void(const std::string& cause, const std::vector<std::string>& lines)> on_hang{};
};

// Runs the ranks; returns when none is left, whatever happened. The first stop signal sent to the caller goes to every rank;
// a further SIGINT kills them (os::StopRequest). The ranks die with the calling thread.
// Must be called while the process has one thread. A rank that cannot be started is one that failed, with the code of
// kUsage and the reason as its cause.
Outcome run(const Launch& launch);

// A name that no other run of this machine has.
std::string fresh_name();

}  // namespace trireme::elastic
