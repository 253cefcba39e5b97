// From a resolved job to what a plan is compiled of.
#pragma once

#include "trireme/config/job.h"
#include "trireme/model/spec.h"
#include "trireme/plan/mesh/mesh.h"
#include "trireme/plan/recipe.h"

namespace trireme::model {

mesh::Mesh mesh_of(const config::Job& job);
plan::Recipe recipe_of(const config::Job& job);

// A program's nodes with the seconds of parallel.costs, if the job names such a file, placed on the ranks of the
// pipeline. Throws Error{kUsage} or Error{kData} for stages or a file that do not fit the model.
plan::Program place_stages(const config::Job& job, plan::Program program);

// The actions of the stages in order: those of the job's schedule, or of its file. `model` is described for the job.
schedules::Grid grid_of(const config::Job& job, const ModelSpec& model);

}  // namespace trireme::model
