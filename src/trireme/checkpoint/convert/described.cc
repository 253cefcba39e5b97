#include "trireme/checkpoint/convert/described.h"

#include "trireme/base/error.h"

namespace trireme::convert {
namespace {

bool equal(const formats::ManifestUnit& stored, const formats::ManifestUnit& wanted) {
  bool equal = stored.numel == wanted.numel && stored.parameters.size() == wanted.parameters.size();
  for (std::size_t p = 0; equal && p < wanted.parameters.size(); ++p)
    equal = stored.parameters[p].name == wanted.parameters[p].name &&
            stored.parameters[p].shape == wanted.parameters[p].shape &&
            stored.parameters[p].offset == wanted.parameters[p].offset;
  return equal;
}

}  // namespace

formats::ManifestUnit manifest_unit(const model::UnitSpec& spec, int part, int parts) {
  formats::ManifestUnit unit{.name = spec.name, .tp_rank = part, .tp = parts};
  for (const model::ParamSpec& param : spec.params) {
    const model::LocalParam local = model::local_param(param, part, parts);
    unit.parameters.push_back({.name = param.name, .shape = local.shape, .offset = unit.numel});
    unit.numel += local.numel();
  }
  return unit;
}

std::vector<formats::ManifestAxis> manifest_layout(const mesh::Mesh& mesh) {
  std::vector<formats::ManifestAxis> layout;
  for (auto axis = mesh::kAllAxes.rbegin(); axis != mesh::kAllAxes.rend(); ++axis)
    if (*axis != mesh::Axis::kIsland || mesh.degree(*axis) > 1)
      layout.push_back({.axis = std::string(mesh::name(*axis)), .degree = mesh.degree(*axis)});
  return layout;
}

std::vector<int> unit_places(const formats::Manifest& manifest,
                             const std::vector<model::UnitSpec>& specs, const std::string& what) {
  std::vector<int> places(specs.size(), -1);
  const int parts = manifest.units.empty() ? 1 : static_cast<int>(manifest.units[0].tp);
  std::size_t unit = 0;
  for (std::size_t index = 0; index < manifest.units.size(); ++index) {
    const formats::ManifestUnit& stored = manifest.units[index];
    const auto part = static_cast<int>(stored.tp_rank);
    if (part == 0) {
      if (index > 0) ++unit;
      while (unit < specs.size() && specs[unit].name != stored.name) ++unit;
    }
    if (unit == specs.size())
      fail(ErrorKind::kData,
           "{}: unit {} is not one of the model's {}, or not in its place; take the job that wrote "
           "it",
           what, stored.name, specs.size());
    const formats::ManifestUnit wanted = manifest_unit(specs[unit], part, parts);
    if (!equal(stored, wanted))
      fail(ErrorKind::kData,
           "{}: unit {} ({} elements) is not the model's unit {} ({} elements); take the job that "
           "wrote it, with its optimizers",
           what, stored.name, stored.numel, wanted.name, wanted.numel);
    if (part == 0) places[unit] = static_cast<int>(index) / parts;
  }
  return places;
}

}  // namespace trireme::convert
