// StackReader: call stacks of an agent's ranks, read by another process. A reader stops the rank meanwhile, and may
// itself be blocked by a disk that does not answer.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/os/processes.h"

namespace trireme::elastic {

class StackReader {
 public:
  // `command` prints the stacks of the process whose number is appended to it; empty: no stacks. `processes` outlives
  // this.
  StackReader(os::Processes& processes, std::vector<std::string> command,
              std::vector<std::string> environment)
      : processes_(processes), command_(std::move(command)), environment_(std::move(environment)) {}

  // The stacks, a line a frame. Nothing while they are being read, which begins with the first call and takes two
  // seconds at most. `state` is the result of os::process_state for the process.
  std::optional<std::string> read(int process, char state, double now);
  // The state in which a process was found whose stacks are being read: the kernel says meanwhile that a debugger holds it.
  std::optional<char> found(int process) const;
  // The next call reads the stacks from the beginning.
  void forget(int process) { readings_.erase(process); }
  // Events of processes that are not its own are passed over.
  void handle(const os::ProcessEvent& event);

 private:
  struct Reading {
    int reader = 0;  // the process that reads
    char found = 0;  // state of the process that is read
    double since = 0;
    bool done = false;
    std::string lines{};
  };
  os::Processes& processes_;
  std::vector<std::string> command_, environment_;
  std::map<int, Reading> readings_;  // by process
};

}  // namespace trireme::elastic
