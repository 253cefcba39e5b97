// Starting trireme-worker, which is in the directory of this program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "environment.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/launch/elastic/launch.h"

namespace trireme::app {

// The worker's path. Throws Error{kUsage} when it is not there: this is a build without LibTorch.
std::string worker_program();

// This process becomes the worker that is the rank that `place` says (with all its threads).
[[noreturn]] void become_worker(const std::vector<std::string>& arguments, const Place& place);

// Throws Error{kUsage} where so many rank processes, each with so many ranks, could not be started for lack of processes,
// threads or descriptors.
void check_limits(int processes, int ranks_of_each);

// Reports how the ranks of a run ended, if they did not do so themselves; returns the exit code.
int report_outcome(const elastic::Outcome& outcome, const Path& run);

// A line of a rank other than 0.
void print_line_of(int rank, std::string_view line);

// The environment of a worker: this process's, and what LibTorch reads while it loads; what the user has set stays.
std::vector<std::string> worker_variables();

// Starts place.world workers on this machine and stays with them.
elastic::Outcome run_workers(const std::vector<std::string>& arguments, const Place& place);
// Runs its ranks on this machine: a worker each, or threads of one, which gets --ranks.
elastic::Outcome run_ranks(std::vector<std::string> arguments, const Place& place);
// Runs the workers as ranks of a run: hanging ranks are detected, and faults are recorded in its directory.
elastic::Outcome run_workers(const std::vector<std::string>& arguments, const Place& place,
                             const config::Run& keys, const Path& run);

}  // namespace trireme::app
