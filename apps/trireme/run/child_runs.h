// `trireme train` as a child process of this one: what jobs in phases and sweeps are made of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/trireme/commands.h"
#include "trireme/base/fs.h"

namespace trireme::app {

// Trains `job` into `out`.
std::vector<std::string> train_command(const JobOptions& job, const Path& out);

// This process's environment.
std::vector<std::string> own_environment();

// Whether a run's newest checkpoint that can be used is of the last step of the job.
bool has_ended(const Path& run, std::int64_t steps);

// Runs the command and returns its exit code. Its output is part of ours, and our signals are passed on to it.
int run_child(const std::vector<std::string>& command);

}  // namespace trireme::app
