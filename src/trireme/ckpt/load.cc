#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/formats/safetensors.h"

namespace trireme::ckpt {
namespace {

// What the checkpoint holds, and where.
class Stored {
 public:
  Stored(const Path& directory, const std::vector<arch::UnitSpec>& specs)
      : directory_(directory), specs_(specs), manifest_(formats::verify_checkpoint(directory)) {
    check_units();
    for (const formats::ManifestFile& file : manifest_.files)
      files_.emplace(file.name, formats::SafetensorsFile(directory / file.name));
  }

  const formats::Manifest& manifest() const { return manifest_; }
  int tp() const { return manifest_.units.empty() ? 1 : static_cast<int>(manifest_.units[0].tp); }

  // Fills elements [offset, offset + out.numel()) of what tp rank `part` held of a unit.
  void read(plan::UnitId unit, int part, const std::string& kind, std::int64_t offset,
            const at::Tensor& out) const {
    bool found = false;
    for (const formats::ManifestSlice& slice :
         manifest_.units[static_cast<std::size_t>(unit * tp() + part)].slices) {
      if (slice.kind != kind) continue;
      found = true;
      copy_overlap(slice, offset, out);
    }
    if (!found)
      fail(ErrorKind::kData, "{}: unit {} has no {}; resume with the optimizer that wrote it",
           directory_.string(), spec(unit).name, kind);
  }

  // The whole unit, put together from its parts.
  at::Tensor whole(plan::UnitId unit, const std::string& kind, at::ScalarType type) const {
    const at::TensorOptions options = at::TensorOptions().dtype(type);
    at::Tensor all = at::empty({spec(unit).numel()}, options);
    for (int part = 0; part < tp(); ++part) {
      const std::vector<arch::LocalParam> params = arch::local_params(spec(unit), part, tp());
      std::int64_t here = 0;
      for (const arch::LocalParam& param : params) here += param.numel();
      const at::Tensor held = at::empty({here}, options);
      read(unit, part, kind, 0, held);
      for_extents(spec(unit), params, [&](const arch::Extent& extent) {
        if (extent.owned)
          all.narrow(0, extent.global, extent.count)
              .copy_(held.narrow(0, extent.local, extent.count));
      });
    }
    return all;
  }

  const arch::UnitSpec& spec(plan::UnitId unit) const {
    return specs_[static_cast<std::size_t>(unit)];
  }

  // Extents of all parameters, counted from the start of the unit, whole and held.
  template <typename Use>
  static void for_extents(const arch::UnitSpec& spec, const std::vector<arch::LocalParam>& params,
                          const Use& use) {
    std::int64_t global = 0;
    std::int64_t local = 0;
    for (std::size_t i = 0; i < params.size(); ++i) {
      for (arch::Extent extent : params[i].extents) {
        extent.global += global;
        extent.local += local;
        use(extent);
      }
      global += spec.params[i].numel();
      local += params[i].numel();
    }
  }

 private:
  void check_units() const {
    const auto parts = static_cast<std::size_t>(tp());
    if (manifest_.units.size() != specs_.size() * parts)
      fail(ErrorKind::kData,
           "{}: holds {} units in {} parts each, the model has {} units; resume with the job that "
           "wrote it",
           directory_.string(), manifest_.units.size() / parts, parts, specs_.size());
    for (std::size_t u = 0; u < manifest_.units.size(); ++u) {
      const formats::ManifestUnit& unit = manifest_.units[u];
      const arch::UnitSpec& spec = specs_[u / parts];
      bool equal = unit.name == spec.name && unit.tp_rank == static_cast<std::int64_t>(u % parts) &&
                   unit.parameters.size() == spec.params.size();
      std::int64_t numel = 0;
      for (std::size_t p = 0; equal && p < spec.params.size(); ++p) {
        const arch::LocalParam param =
            arch::local_param(spec.params[p], static_cast<int>(u % parts), tp());
        equal = unit.parameters[p].name == spec.params[p].name &&
                unit.parameters[p].shape == param.shape && unit.parameters[p].offset == numel;
        numel += param.numel();
      }
      if (!equal || unit.numel != numel)
        fail(ErrorKind::kData,
             "{}: unit {} ({} elements) is not the model's unit {} ({} elements); resume with the "
             "job that wrote it",
             directory_.string(), unit.name, unit.numel, spec.name, numel);
    }
  }

  // Copies what a slice and elements [offset, ..) share.
  void copy_overlap(const formats::ManifestSlice& slice, std::int64_t offset,
                    const at::Tensor& out) const {
    const std::int64_t begin = std::max(offset, slice.offset);
    const std::int64_t end = std::min(offset + out.numel(), slice.offset + slice.length);
    if (begin >= end) return;
    const formats::Tensor* stored = files_.at(slice.file).find(slice.tensor);
    TRIREME_CHECK(stored != nullptr, "{} passed verification without {}", slice.file, slice.tensor);
    const std::size_t width = out.element_size();
    const bool same_type = size_of(stored->dtype) == width &&
                           (stored->dtype == DType::kBF16) == (out.scalar_type() == at::kBFloat16);
    if (!same_type)
      fail(ErrorKind::kData,
           "{}: {} is stored as {}, this job needs {}; resume with the same precision",
           (directory_ / slice.file).string(), slice.tensor, name(stored->dtype),
           c10::toString(out.scalar_type()));
    std::memcpy(
        static_cast<std::byte*>(out.data_ptr()) + static_cast<std::size_t>(begin - offset) * width,
        stored->bytes.data() + static_cast<std::size_t>(begin - slice.offset) * width,
        static_cast<std::size_t>(end - begin) * width);
  }

  const Path& directory_;
  const std::vector<arch::UnitSpec>& specs_;
  formats::Manifest manifest_;
  std::map<std::string, formats::SafetensorsFile> files_;
};

// Another number of tp ranks wrote it: every unit is put together and cut anew, one at a time.
void load_recut(const Stored& stored, const exec::Units& units,
                const std::vector<exec::StateSlice>& slices) {
  for (const exec::StateSlice& slice : slices) {
    const at::Tensor all = stored.whole(slice.unit, slice.kind, slice.tensor.scalar_type());
    const arch::UnitSpec& spec = stored.spec(slice.unit);
    const std::int64_t slice_end = slice.offset + slice.tensor.numel();
    Stored::for_extents(
        spec, arch::local_params(spec, units.tp_rank(), units.tp()),
        [&](const arch::Extent& extent) {
          const std::int64_t begin = std::max(extent.local, slice.offset);
          const std::int64_t end = std::min(extent.local + extent.count, slice_end);
          if (begin < end)
            slice.tensor.narrow(0, begin - slice.offset, end - begin)
                .copy_(all.narrow(0, extent.global + (begin - extent.local), end - begin));
        });
  }
}

}  // namespace

formats::Manifest load(const Path& directory, const exec::Units& units,
                       const std::vector<arch::UnitSpec>& specs) {
  const Stored stored(directory, specs);
  const std::vector<exec::StateSlice> slices = units.local_slices();
  if (stored.tp() != units.tp()) {
    load_recut(stored, units, slices);
  } else {
    for (const exec::StateSlice& slice : slices) {
      const at::Tensor value = slice.tensor.cpu();  // itself where it is in host memory
      stored.read(slice.unit, units.tp_rank(), slice.kind, slice.offset, value);
      if (!value.is_same(slice.tensor)) slice.tensor.copy_(value);
    }
  }
  return stored.manifest();
}

}  // namespace trireme::ckpt
