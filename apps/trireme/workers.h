// Starting trireme-worker, which lies beside this program.
#pragma once

#include <string>
#include <vector>

#include "place.h"
#include "trireme/elastic/launch.h"

namespace trireme::app {

// The worker's path. Throws Error{kUsage} when it is not there: this is a build without LibTorch.
std::string worker_program();

// Replaces this process by the worker, which becomes the rank that `place` says (with all its
// threads).
[[noreturn]] void become_worker(const std::vector<std::string>& arguments, const Place& place);

// Starts place.world workers on this machine and stays with them.
elastic::Outcome run_workers(const std::vector<std::string>& arguments, const Place& place);

}  // namespace trireme::app
