// trireme stack: where the threads of a process are.
#include "trireme/base/os/stack.h"

#include <fmt/core.h>

#include "apps/trireme/commands.h"
#include "trireme/base/error.h"

namespace trireme::app {

int stack(int process) {
  const char state = os::process_state(process);
  if (state == 'X') fail(ErrorKind::kUsage, "stack {}: there is no such process", process);
  fmt::print("process {} ({})\n", process, state);
  for (const std::string& line : os::stacks(process)) fmt::print("{}\n", line);
  return 0;
}

}  // namespace trireme::app
