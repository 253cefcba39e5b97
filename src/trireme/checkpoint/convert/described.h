// A model's units and a mesh in the words of a manifest.
#pragma once

#include <string>
#include <vector>

#include "trireme/formats/manifest.h"
#include "trireme/model/spec.h"
#include "trireme/plan/mesh/mesh.h"

namespace trireme::convert {

// A unit as tensor-parallel rank `part` of `parts` holds it, without slices.
formats::ManifestUnit manifest_unit(const model::UnitSpec& spec, int part, int parts);

// From the outermost axis to the innermost.
std::vector<formats::ManifestAxis> manifest_layout(const mesh::Mesh& mesh);

// Index of each unit of a model in a manifest whose parts follow one another; -1 for units that the manifest leaves
// out. Throws Error{kData}, `what` naming the checkpoint, if it is not a checkpoint of this model.
std::vector<int> unit_places(const formats::Manifest& manifest,
                             const std::vector<model::UnitSpec>& specs, const std::string& what);

}  // namespace trireme::convert
