// How a process becomes trireme-worker: `trireme` executes it, a copy of trireme-worker goes on as what it is.
#pragma once

#include <string>
#include <vector>

namespace trireme::app {

// Defined by each program. `words` are a command and its arguments, `environment` all of "KEY=VALUE". Returns the exit
// code, if at all.
int enter_worker(std::vector<std::string> words, std::vector<std::string> environment);

}  // namespace trireme::app
