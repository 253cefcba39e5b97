#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <fmt/ranges.h>

#include <optional>
#include <set>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::checkpoint {
namespace {

using model::UnitSpec;

// A slice of the model's state as this rank holds it. What is frozen has no master: it has the type that computing had,
// which may change.
at::Tensor read(const convert::StateReader& stored, const Path& directory,
                const exec::StateSlice& slice, const exec::Units& units, const UnitSpec& spec) {
  const auto unit = static_cast<std::size_t>(slice.unit);
  const std::optional<convert::Kind> kind = stored.kind(unit, slice.kind);
  if (!kind)
    fail(ErrorKind::kData, "{}: unit {} has no {}; resume with the optimizer that wrote it",
         directory.string(), spec.name, slice.kind);
  if (kind->type != slice.type && units.trains(slice.unit))
    fail(ErrorKind::kData,
         "{}: {} of unit {} is stored as {}, this job needs {}; resume with the same precision and "
         "optim.states",
         directory.string(), slice.kind, spec.name, name(kind->type), name(slice.type));
  const at::Tensor value =
      at::empty({slice.count}, at::TensorOptions().dtype(comm::scalar_type(kind->type)));
  stored.read({.unit = unit,
               .part = units.tp_rank(),
               .parts = units.tp(),
               .offset = slice.offset,
               .count = slice.count},
              *kind, {static_cast<std::byte*>(value.data_ptr()), value.nbytes()});
  return value.to(comm::scalar_type(slice.type));
}

// Residuals of the job that wrote it that a residual of this job takes over: those whose place among all begins within
// its own. So the sum of all residuals is kept, whatever their numbers.
std::vector<int> earlier_senders(int sender, int senders, int stored) {
  std::vector<int> mine;
  for (int one = 0; one < stored; ++one)
    if (std::int64_t{one} * senders / stored == sender) mine.push_back(one);
  return mine;
}

// Zeros where the checkpoint has none, as at the beginning of a run.
at::Tensor read_residual(const convert::StateReader& stored, const exec::StateSlice& slice) {
  const auto unit = static_cast<std::size_t>(slice.unit);
  at::Tensor sum = at::zeros({slice.count}, at::kFloat);
  int senders = 0;
  while (stored.kind(unit, exec::residual_kind(senders))) ++senders;
  for (const int sender : earlier_senders(slice.sender, slice.senders, senders)) {
    const convert::Kind kind = stored.kind(unit, exec::residual_kind(sender)).value();
    const at::Tensor value =
        at::empty({slice.count}, at::TensorOptions().dtype(comm::scalar_type(kind.type)));
    stored.read({.unit = unit, .offset = slice.offset, .count = slice.count}, kind,
                {static_cast<std::byte*>(value.data_ptr()), value.nbytes()});
    sum.add_(value);
  }
  return sum;
}

// Units that a checkpoint of what trains leaves out.
std::vector<plan::UnitId> left_out(const convert::StateReader& stored, const Path& directory,
                                   const exec::Units& units, const std::vector<UnitSpec>& specs) {
  std::vector<plan::UnitId> missing;
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit) {
    if (stored.has(static_cast<std::size_t>(unit))) continue;
    if (units.trains(unit))
      fail(ErrorKind::kData,
           "{}: has no unit {}, which this job trains; resume with the job that "
           "wrote it",
           directory.string(), specs[unit].name);
    missing.push_back(unit);
  }
  return missing;
}

void check_base(const formats::Manifest& manifest, const Path& directory, const Path& base,
                const std::vector<plan::UnitId>& missing, const std::vector<UnitSpec>& specs) {
  std::vector<std::string> names;
  for (plan::UnitId unit : missing) names.push_back(specs[unit].name);
  if (base.empty())
    fail(ErrorKind::kData,
         "{}: leaves out frozen units (checkpoint.trainable_only): {}; set model.weights to the "
         "checkpoint that its run began with",
         directory.string(), fmt::join(names, ", "));
  if (const std::string is = identity(base); is != manifest.base)
    fail(ErrorKind::kData,
         "{}: its run began with a checkpoint whose manifest has digest {}, {} has {}; set "
         "model.weights to that one",
         directory.string(), manifest.base, base.string(), is);
}

// Residuals of other senders may be added to a residual.
bool is_kind(const std::string& stored, const exec::StateSlice& slice) {
  return stored == slice.kind || (slice.sender >= 0 && stored.starts_with("residual"));
}

}  // namespace

std::set<std::string> needed_files(const formats::Manifest& manifest, const exec::Units& units,
                                   const std::vector<UnitSpec>& specs) {
  const std::vector<int> places =
      convert::unit_places(manifest, specs, fmt::format("checkpoint of step {}", manifest.step));
  const int parts = manifest.units.empty() ? 1 : static_cast<int>(manifest.units[0].tp);
  const bool whole = parts != units.tp();  // units are joined and cut in a new way
  std::set<std::string> needed;
  for (const exec::StateSlice& slice : units.local_slices()) {
    const int place = places[slice.unit];
    for (int part = 0; place >= 0 && part < parts; ++part) {
      if (!whole && part != units.tp_rank()) continue;
      for (const auto& stored : manifest.units[place * parts + part].slices)
        if (is_kind(stored.kind, slice) &&
            (whole || (stored.offset < slice.offset + slice.count &&
                       slice.offset < stored.offset + stored.length)))
          needed.insert(stored.file);
    }
  }
  return needed;
}

std::string identity(const Path& directory) { return convert::identity_of_weights(directory); }

formats::Manifest load(const Path& directory, exec::Units& units,
                       const std::vector<UnitSpec>& specs, const Path& base, Files files) {
  std::optional<std::set<std::string>> only;
  if (files == Files::kNeeded) only = needed_files(formats::read_manifest(directory), units, specs);
  const convert::StateReader stored(directory, specs, only);
  const std::vector<plan::UnitId> missing = left_out(stored, directory, units, specs);
  if (!missing.empty()) {
    check_base(stored.manifest(), directory, base, missing, specs);
    load_weights(base, units, specs, missing);
  }
  for (const exec::StateSlice& slice : units.local_slices()) {
    const auto unit = static_cast<std::size_t>(slice.unit);
    if (slice.sender >= 0)
      units.write(slice, read_residual(stored, slice));
    else if (slice.begins && !stored.kind(unit, slice.kind))
      units.write(slice, at::zeros({slice.count},
                                   at::TensorOptions().dtype(comm::scalar_type(slice.type))));
    else if (stored.has(unit))
      units.write(slice, read(stored, directory, slice, units, specs[unit]));
  }
  return stored.manifest();
}

}  // namespace trireme::checkpoint
