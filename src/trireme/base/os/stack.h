// Looking at another process from outside.
#pragma once

#include <string>
#include <vector>

namespace trireme::os {

// State from /proc/PID/stat: R runs, S sleeps, D waits for a disk, T is stopped, t is held by a debugger, Z has ended.
// X: no such process.
char process_state(int process);

// The call stacks of its threads, a line a frame below a line a thread, innermost frame first, at most `frames` of each. The
// process is held meanwhile, for some milliseconds. Where they cannot be read, one line says why.
std::vector<std::string> stacks(int process, int frames = 24);

}  // namespace trireme::os
