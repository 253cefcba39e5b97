// A job as it is asked for: a file, a phase of it, keys set over it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"

namespace trireme::runs {

// A job and the ranks that it is for.
struct JobOptions {
  std::string file;
  std::string phase;                     // of a job in phases
  std::vector<std::string> assignments;  // "section.key=value"
  std::vector<std::string> allow;        // keys that may differ from those of model.weights
  std::optional<int> ranks;
  std::optional<int> nproc;
};

// Reads the job file, or the chosen phase of a job file in phases, and applies the assignments. Missing keys come from
// model.weights, data.tokenizer included. If the weights no longer exist, they come from the run in `run` that began
// with them. Throws Error{kUsage}.
config::Job read_job(const JobOptions& options, const Path& run = {});

// Without a job file: the job of the run in `run` and, unless `placed` (something else says its ranks), the ranks that it had.
// Throws Error{kUsage} where there is no run.
JobOptions with_job_of_run(JobOptions options, const Path& run, bool placed);

// The job with the files and directories that it names made absolute, so that its run can be resumed from anywhere.
config::Job with_absolute_paths(config::Job job);

// Whether text, or questions about pictures, are cut into tokens here; a dataset of tokens has its vocabulary.
bool takes_vocabulary(const config::Job& job);

// "gpt_tiny" of "recipes/gpt_tiny.yaml"; with the phase, if one is chosen.
std::string job_name(const JobOptions& options);

}  // namespace trireme::runs
