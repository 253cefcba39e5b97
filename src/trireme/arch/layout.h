// From a resolved job to what a plan is compiled of.
#pragma once

#include "trireme/config/job.h"
#include "trireme/mesh/mesh.h"
#include "trireme/plan/recipe.h"

namespace trireme::arch {

mesh::Mesh mesh_of(const config::Job& job);
plan::Recipe recipe_of(const config::Job& job);

}  // namespace trireme::arch
