// A job as the command line gives it, set into a world, with its plan compiled and proven.
#pragma once

#include <string>
#include <string_view>

#include "commands.h"
#include "place.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/spec.h"
#include "trireme/plan/plan.h"

namespace trireme::app {

// Reads the job file, of one in phases the phase that is chosen, and applies the assignments. Where model.weights are
// there, keys that are left out come from them, data.tokenizer included; where they have gone, from the run in `run`
// that began with them. Throws Error{kUsage}.
config::Job read_job(const JobOptions& options, const Path& run = {});
// The job that `trireme train` with these options trains, also behind `trireme launch`: run.steps is its last step,
// whichever option gave it, and model.weights the directory that is read. Throws Error{kUsage}.
config::Job read_job(const TrainOptions& options);

// The job with the files and directories that it names made absolute, so that its run can be resumed from anywhere.
config::Job with_absolute_paths(config::Job job);

// Whether text is cut into tokens here; a dataset of tokens has its vocabulary.
bool takes_vocabulary(const config::Data& data);

// "gpt_tiny" of "recipes/gpt_tiny.yaml"; with the phase, if one is chosen.
std::string job_name(const JobOptions& options);

// A file name for a job's text that lasts as long as this process and those it becomes or starts.
std::string job_in_memory(const std::string& text);

// Refuses what is wrong whatever the dataset turns out to be, and a device that this build or these ranks
// cannot use. Throws Error{kUsage}.
void check_early(const config::Job& job, const Place& place);

struct Planned {
  config::Job job;  // resolved
  model::ModelSpec model;
  plan::PlanSet plan;  // validated
};

// Resolves, compiles and validates. Throws Error{kUsage} for a job that cannot be planned.
Planned plan_job(config::Job job, int world, const config::DatasetFacts& data);

// Throws Error{kUsage} for a job that looks for its micro_batch, where nothing does.
void refuse_search(const config::Job& job, std::string_view command);

// What precision.compute=auto has become, one sentence.
std::string choice_of_precision(const config::Job& resolved);

// A few lines: model, layout, plan, memory.
std::string short_summary(const Planned& planned, const Place& place);

}  // namespace trireme::app
