#include <ATen/ops/empty.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/checkpoint/stored.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::checkpoint {
namespace {

using model::UnitSpec;

// Extents of all parameters, counted from the start of the unit, whole and held.
template <typename Use>
void for_extents(const UnitSpec& spec, const std::vector<model::LocalParam>& params,
                 const Use& use) {
  std::int64_t global = 0;
  std::int64_t local = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    for (model::Extent extent : params[i].extents) {
      extent.global += global;
      extent.local += local;
      use(extent);
    }
    global += spec.params[i].numel();
    local += params[i].numel();
  }
}

// A model's units in the checkpoint that a run of it wrote.
class UnitsStored {
 public:
  UnitsStored(Stored opened, const std::vector<UnitSpec>& specs)
      : stored_(std::move(opened)), specs_(specs), places_(specs.size()) {
    std::size_t unit = 0;
    for (std::size_t place = 0; place < stored_.units(); ++place, ++unit) {
      const std::string& name = stored_.unit(place, 0).name;
      while (unit < specs.size() && specs[unit].name != name) ++unit;
      if (unit == specs.size())
        fail(ErrorKind::kData,
             "{}: unit {} is none of the model's {}, or not where it belongs; resume with the job "
             "that wrote it",
             stored_.directory().string(), name, specs.size());
      check(place, specs[unit]);
      places_[unit] = place;
    }
  }

  const Stored& stored() const { return stored_; }
  bool has(plan::UnitId unit) const { return places_[static_cast<std::size_t>(unit)].has_value(); }

  // As this rank holds it.
  at::Tensor read(const exec::StateSlice& slice, int part, int parts, Types types) const {
    const at::TensorOptions options = at::TensorOptions().dtype(comm::scalar_type(slice.type));
    const at::Tensor value = at::empty({slice.count}, options);
    if (stored_.tp() == parts)
      stored_.read(place(slice.unit), part, slice.kind, slice.offset, value, types);
    else
      read_recut(slice, part, parts, types, value);
    return value;
  }

 private:
  std::size_t place(plan::UnitId unit) const {
    return places_[static_cast<std::size_t>(unit)].value();
  }

  void check(std::size_t place, const UnitSpec& spec) const {
    for (int part = 0; part < stored_.tp(); ++part) {
      const formats::ManifestUnit& unit = stored_.unit(place, part);
      bool equal = unit.parameters.size() == spec.params.size();
      std::int64_t numel = 0;
      for (std::size_t p = 0; equal && p < spec.params.size(); ++p) {
        const model::LocalParam param = model::local_param(spec.params[p], part, stored_.tp());
        equal = unit.parameters[p].name == spec.params[p].name &&
                unit.parameters[p].shape == param.shape && unit.parameters[p].offset == numel;
        numel += param.numel();
      }
      if (!equal || unit.numel != numel)
        fail(ErrorKind::kData,
             "{}: unit {} ({} elements) is not the model's unit {} ({} elements); resume with the "
             "job that wrote it",
             stored_.directory().string(), unit.name, unit.numel, spec.name, numel);
    }
  }

  // Another number of tp ranks wrote it: the unit is put together and cut anew.
  void read_recut(const exec::StateSlice& slice, int part, int parts, Types types,
                  const at::Tensor& out) const {
    TRIREME_CHECK(slice.block == 1, "blocks of {} elements are not cut anew", slice.block);
    const at::Tensor all = whole(slice.unit, slice.kind, out.scalar_type(), types);
    const UnitSpec& spec = specs_[static_cast<std::size_t>(slice.unit)];
    for_extents(spec, model::local_params(spec, part, parts), [&](const model::Extent& extent) {
      const std::int64_t begin = std::max(extent.local, slice.offset);
      const std::int64_t end = std::min(extent.local + extent.count, slice.offset + slice.count);
      if (begin < end)
        out.narrow(0, begin - slice.offset, end - begin)
            .copy_(all.narrow(0, extent.global + (begin - extent.local), end - begin));
    });
  }

  at::Tensor whole(plan::UnitId unit, const std::string& kind, at::ScalarType type,
                   Types types) const {
    const UnitSpec& spec = specs_[static_cast<std::size_t>(unit)];
    const at::TensorOptions options = at::TensorOptions().dtype(type);
    at::Tensor all = at::empty({spec.numel()}, options);
    for (int part = 0; part < stored_.tp(); ++part) {
      const std::vector<model::LocalParam> params = model::local_params(spec, part, stored_.tp());
      std::int64_t here = 0;
      for (const model::LocalParam& param : params) here += param.numel();
      const at::Tensor held = at::empty({here}, options);
      stored_.read(place(unit), part, kind, 0, held, types);
      for_extents(spec, params, [&](const model::Extent& extent) {
        if (extent.owned)
          all.narrow(0, extent.global, extent.count)
              .copy_(held.narrow(0, extent.local, extent.count));
      });
    }
    return all;
  }

  Stored stored_;
  const std::vector<UnitSpec>& specs_;
  std::vector<std::optional<std::size_t>>
      places_;  // of each unit in the checkpoint, if it is there
};

// Units that a checkpoint of what trains leaves out.
std::vector<plan::UnitId> left_out(const UnitsStored& stored, const exec::Units& units,
                                   const std::vector<UnitSpec>& specs) {
  std::vector<plan::UnitId> missing;
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit) {
    if (stored.has(unit)) continue;
    if (units.trains(unit))
      fail(ErrorKind::kData,
           "{}: has no unit {}, which this job trains; resume with the job that "
           "wrote it",
           stored.stored().directory().string(), specs[static_cast<std::size_t>(unit)].name);
    missing.push_back(unit);
  }
  return missing;
}

void check_base(const formats::Manifest& manifest, const Path& directory, const Path& base,
                const std::vector<plan::UnitId>& missing, const std::vector<UnitSpec>& specs) {
  std::vector<std::string> names;
  for (plan::UnitId unit : missing) names.push_back(specs[static_cast<std::size_t>(unit)].name);
  if (base.empty())
    fail(ErrorKind::kData,
         "{}: leaves out what did not train (checkpoint.trainable_only): {}; set model.weights to "
         "the checkpoint that its run began with",
         directory.string(), fmt::join(names, ", "));
  if (const std::string is = identity(base); is != manifest.base)
    fail(ErrorKind::kData,
         "{}: its run began with a checkpoint whose manifest has digest {}, {} has {}; set "
         "model.weights to that one",
         directory.string(), manifest.base, base.string(), is);
}

Stored open(const Path& directory, const exec::Units& units, const std::vector<UnitSpec>& specs,
            Files files) {
  if (files == Files::kAll) return Stored(directory);
  return Stored(directory, needed_files(formats::read_manifest(directory), units, specs));
}

}  // namespace

std::set<std::string> needed_files(const formats::Manifest& manifest, const exec::Units& units,
                                   const std::vector<UnitSpec>& specs) {
  const std::vector<int> places =
      convert::unit_places(manifest, specs, fmt::format("checkpoint of step {}", manifest.step));
  const int parts = manifest.units.empty() ? 1 : static_cast<int>(manifest.units[0].tp);
  const bool whole = parts != units.tp();  // units are put together and cut anew
  std::set<std::string> needed;
  for (const exec::StateSlice& slice : units.local_slices()) {
    const int place = places[static_cast<std::size_t>(slice.unit)];
    for (int part = 0; place >= 0 && part < parts; ++part) {
      if (!whole && part != units.tp_rank()) continue;
      for (const auto& stored :
           manifest.units[static_cast<std::size_t>(place * parts + part)].slices)
        if (stored.kind == slice.kind && (whole || (stored.offset < slice.offset + slice.count &&
                                                    slice.offset < stored.offset + stored.length)))
          needed.insert(stored.file);
    }
  }
  return needed;
}

std::string identity(const Path& directory) { return convert::identity_of_weights(directory); }

formats::Manifest load(const Path& directory, exec::Units& units,
                       const std::vector<UnitSpec>& specs, const Path& base, Files files) {
  const UnitsStored stored(open(directory, units, specs, files), specs);
  const formats::Manifest& manifest = stored.stored().manifest();
  const std::vector<plan::UnitId> missing = left_out(stored, units, specs);
  if (!missing.empty()) {
    check_base(manifest, directory, base, missing, specs);
    load_weights(base, units, specs, missing);
  }
  for (const exec::StateSlice& slice : units.local_slices()) {
    if (!stored.has(slice.unit)) continue;
    // What is frozen has no master: it has the type that computing had, which may change.
    const Types types = units.trains(slice.unit) ? Types::kSame : Types::kConverted;
    units.write(slice, stored.read(slice, units.tp_rank(), units.tp(), types));
  }
  return manifest;
}

}  // namespace trireme::checkpoint
