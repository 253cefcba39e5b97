// Common parts of commands that train: the job that their options give, as a file for the worker, and a few lines about
// it.
#pragma once

#include <string>

#include "commands.h"
#include "environment.h"
#include "trireme/config/job.h"
#include "trireme/job/runs/plan_job.h"

namespace trireme::app {

// Without a job but with --out: the job of the run there and, where nothing else says, its ranks. Throws Error{kUsage} where
// there is no run.
TrainOptions of_its_run(TrainOptions options);

// The job that `trireme train` with these options trains, also under `trireme launch`. run.steps is its last step,
// whichever option gave it, and model.weights the directory that is read. Throws Error{kUsage}.
config::Job job_to_train(const TrainOptions& options);

// A file name for a job's text that lasts as long as this process and those it becomes or starts.
std::string job_in_memory(const std::string& text);

// The precision chosen for precision.compute=auto, one sentence.
std::string choice_of_precision(const config::Job& resolved);

// A few lines: model, layout, plan, memory.
std::string short_summary(const Planned& planned, const Place& place);

}  // namespace trireme::app
