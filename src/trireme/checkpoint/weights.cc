#include "trireme/checkpoint/convert/weights.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/stored_rows.h"
#include "trireme/model/training.h"

namespace trireme::checkpoint {
namespace {

// Parameters by name, independent of their units and their writer.
class Parameters {
 public:
  explicit Parameters(const Path& directory) : directory_(directory) {
    if (convert::is_hugging_face(directory)) {
      files_.emplace(directory);
      for (const model::UnitSpec& unit : files_->model().units)
        units_.push_back(convert::manifest_unit(unit, 0, 1));
    } else {
      stored_ = formats::open_checkpoint(directory);
      units_ = stored_->manifest.units;
    }
    for (std::size_t unit = 0; unit < units_.size(); unit += static_cast<std::size_t>(tp()))
      for (std::size_t p = 0; p < units_[unit].parameters.size(); ++p)
        places_[units_[unit].parameters[p].name] = {.unit = unit, .param = p};
  }

  bool has(const model::ParamSpec& param) const { return places_.contains(param.name); }
  // Whether the parameter begins with what is stored: itself, or the norms of the rows of a weight.
  bool gives(const model::ParamSpec& param) const {
    return has(param) || (param.norms_of && has(*param.norms_of));
  }
  bool gives_any(const model::UnitSpec& unit) const {
    return std::ranges::any_of(unit.params, [&](const auto& param) { return gives(param); });
  }
  const Path& directory() const { return directory_; }

  // Throws Error{kData} if it has another shape.
  void check(const model::ParamSpec& param) const {
    if (param.matrix) return check(*param.matrix);
    for (int part = 0; part < tp(); ++part) {
      const std::vector<std::int64_t> needed = model::local_param(param, part, tp()).shape;
      if (const auto& shape = here(param, part).shape; shape != needed)
        fail(ErrorKind::kData,
             "{}: {} is [{}] there{}, this model needs [{}]; begin with the weights of a model of "
             "this shape",
             directory_.string(), param.name, fmt::join(shape, ", "),
             tp() > 1 ? fmt::format(" (part {} of {})", part, tp()) : "", fmt::join(needed, ", "));
    }
  }

  at::Tensor read(const model::ParamSpec& param, at::ScalarType type) const {
    if (param.matrix) return exec::stored_rows(param, read(*param.matrix, at::kFloat));
    if (!has(param)) {
      const model::ParamSpec& weight = *param.norms_of;
      return at::linalg_vector_norm(read(weight, at::kDouble).view(weight.shape), 2, {1}).to(type);
    }
    const at::TensorOptions options = at::TensorOptions().dtype(type);
    const at::Tensor all = at::empty({param.numel()}, options);
    if (files_) {
      std::vector<std::byte> values = files_->read(param);
      return all.copy_(at::from_blob(values.data(), {param.numel()}, at::kFloat));
    }
    for (int part = 0; part < tp(); ++part) {
      const model::LocalParam local = model::local_param(param, part, tp());
      const formats::ManifestUnit& unit = unit_of(param, part);
      const convert::Kind kind = convert::stored_kind(*stored_, unit, "param").value();
      const at::Tensor held =
          at::empty({local.numel()}, at::TensorOptions().dtype(comm::scalar_type(kind.type)));
      convert::read_slices(*stored_, unit, kind, here(param, part).offset,
                           {static_cast<std::byte*>(held.data_ptr()), held.nbytes()});
      for (const model::Extent& extent : local.extents)
        if (extent.owned)
          all.narrow(0, extent.global, extent.count)
              .copy_(held.narrow(0, extent.local, extent.count));
    }
    return all;
  }

 private:
  struct Place {
    std::size_t unit = 0;
    std::size_t param = 0;
  };
  int tp() const { return units_.empty() ? 1 : static_cast<int>(units_[0].tp); }
  const formats::ManifestParameter& here(const model::ParamSpec& param, int part) const {
    return unit_of(param, part).parameters[places_.at(param.name).param];
  }
  const formats::ManifestUnit& unit_of(const model::ParamSpec& param, int part) const {
    return units_[places_.at(param.name).unit + static_cast<std::size_t>(part)];
  }

  Path directory_;
  std::optional<formats::OpenCheckpoint> stored_;     // of a checkpoint ...
  std::optional<convert::HuggingFaceWeights> files_;  // ... or of Hugging Face's files
  std::vector<formats::ManifestUnit> units_;
  std::map<std::string, Place> places_;
};

void check_all(const Parameters& stored, const std::vector<model::UnitSpec>& specs,
               const std::vector<plan::UnitId>& wanted) {
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> missing;
  for (plan::UnitId unit : wanted) {
    const model::UnitSpec& spec = specs[unit];
    for (const model::ParamSpec& param : spec.params) {
      if (stored.has(param))
        stored.check(param);
      else if (!model::holds_adapters(spec.name))
        missing.push_back(param.name);
    }
  }
  if (missing.empty()) return;
  const std::size_t count = missing.size();
  const std::string more = count > kNamed ? fmt::format(" and {} more", count - kNamed) : "";
  missing.resize(std::min(count, kNamed));
  fail(ErrorKind::kData,
       "{}: lacks {}{}, which this model begins with; begin with the weights of a model of this "
       "kind, whole (not of checkpoint.trainable_only)",
       stored.directory().string(), fmt::join(missing, ", "), more);
}

// Calls use(slice, value) for the parameters of each wanted unit that this rank holds, with the stored values.
// Parameters that are not stored keep their present values.
template <typename Use>
void for_stored(const Parameters& stored, const exec::Units& units,
                const std::vector<model::UnitSpec>& specs, const std::vector<plan::UnitId>& wanted,
                const Use& use) {
  check_all(stored, specs, wanted);
  for (const exec::StateSlice& slice : units.local_slices()) {
    if (slice.kind != "param" || std::ranges::find(wanted, slice.unit) == wanted.end()) continue;
    const model::UnitSpec& spec = specs[slice.unit];
    const at::Tensor value = units.read(slice).cpu().clone();
    const auto within =
        model::extents_within(spec, units.tp_rank(), units.tp(), slice.offset, slice.count);
    for (std::size_t p = 0; p < spec.params.size(); ++p) {
      if (within[p].empty() || !stored.gives(spec.params[p])) continue;
      const at::Tensor all = stored.read(spec.params[p], value.scalar_type());
      for (const model::Extent& extent : within[p])
        value.narrow(0, extent.local, extent.count)
            .copy_(all.narrow(0, extent.global, extent.count));
    }
    use(slice, value);
  }
}

void fill(const Parameters& stored, exec::Units& units, const std::vector<model::UnitSpec>& specs,
          const std::vector<plan::UnitId>& wanted) {
  for_stored(
      stored, units, specs, wanted,
      [&](const exec::StateSlice& slice, const at::Tensor& value) { units.write(slice, value); });
}

}  // namespace

void load_weights(const Path& directory, exec::Units& units,
                  const std::vector<model::UnitSpec>& specs,
                  const std::vector<plan::UnitId>& wanted) {
  fill(Parameters(directory), units, specs, wanted);
}

void check_frozen(const Path& base, const exec::Units& units,
                  const std::vector<model::UnitSpec>& specs) {
  std::vector<plan::UnitId> frozen;
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit)
    if (!units.trains(unit)) frozen.push_back(unit);
  for_stored(Parameters(base), units, specs, frozen,
             [&](const exec::StateSlice& slice, const at::Tensor& value) {
               if (!at::equal(units.read(slice).cpu(), value))
                 fail(ErrorKind::kData,
                      "checkpoint.trainable_only: unit {} here is not that of model.weights={}; "
                      "name the checkpoint that this run began with, or leave trainable_only out",
                      specs[slice.unit].name, base.string());
             });
}

void load_weights(const Path& directory, exec::Units& units,
                  const std::vector<model::UnitSpec>& specs, NewUnits news) {
  const Parameters stored(directory);
  std::vector<plan::UnitId> wanted;
  for (plan::UnitId unit = 0; unit < std::ssize(specs); ++unit)
    if (news == NewUnits::kRefused || !units.trains(unit) || stored.gives_any(specs[unit]))
      wanted.push_back(unit);
  fill(stored, units, specs, wanted);
}

}  // namespace trireme::checkpoint
