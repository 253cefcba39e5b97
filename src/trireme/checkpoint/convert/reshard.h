// Reshard: a checkpoint as ranks of another layout would have written it.
#pragma once

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/model/spec.h"
#include "trireme/plan/plan.h"

namespace trireme::convert {

// The job of a checkpoint under another layout, and its plan.
struct Target {
  config::Job job;  // resolved
  model::ModelSpec model;
  plan::PlanSet plan;
};

// Writes ROOT/step-N, which must not exist, from the checkpoint `from`: parameters and optimizer states, one slice at a
// time. The bytes equal those that a run under that layout would write. Returns its path. Throws Error{kData}, or
// Error{kUsage} for another model or a step that ROOT has.
Path reshard(const Path& from, const Target& to, const Path& root);

}  // namespace trireme::convert
