#include <algorithm>
#include <cstring>
#include <map>

#include "trireme/base/error.h"
#include "trireme/ckpt/checkpoint.h"
#include "trireme/formats/safetensors.h"

namespace trireme::ckpt {
namespace {

void check_units(const Path& directory, const formats::Manifest& manifest,
                 const std::vector<arch::UnitSpec>& specs) {
  if (manifest.units.size() != specs.size())
    fail(ErrorKind::kData,
         "{}: holds {} units, the model has {}; resume with the job that wrote it",
         directory.string(), manifest.units.size(), specs.size());
  for (std::size_t u = 0; u < specs.size(); ++u) {
    const formats::ManifestUnit& unit = manifest.units[u];
    bool equal = unit.name == specs[u].name && unit.numel == specs[u].numel() &&
                 unit.parameters.size() == specs[u].params.size();
    for (std::size_t p = 0; equal && p < specs[u].params.size(); ++p)
      equal = unit.parameters[p].name == specs[u].params[p].name &&
              unit.parameters[p].shape == specs[u].params[p].shape;
    if (!equal)
      fail(ErrorKind::kData,
           "{}: unit {} ({} elements) is not the model's unit {} ({} elements); resume with the "
           "job that "
           "wrote it",
           directory.string(), unit.name, unit.numel, specs[u].name, specs[u].numel());
  }
}

// Copies what `slice` and `source` share.
void copy_overlap(const Path& directory, const exec::StateSlice& slice,
                  const formats::ManifestSlice& source, const formats::Tensor& stored) {
  const std::int64_t begin = std::max(slice.offset, source.offset);
  const std::int64_t end =
      std::min(slice.offset + slice.tensor.numel(), source.offset + source.length);
  if (begin >= end) return;
  const std::size_t width = slice.tensor.element_size();
  const bool same_type =
      size_of(stored.dtype) == width &&
      (stored.dtype == DType::kBF16) == (slice.tensor.scalar_type() == at::kBFloat16);
  if (!same_type)
    fail(ErrorKind::kData,
         "{}: {} is stored as {}, this job needs {}; resume with the same precision",
         (directory / source.file).string(), source.tensor, name(stored.dtype),
         c10::toString(slice.tensor.scalar_type()));
  std::memcpy(static_cast<std::byte*>(slice.tensor.data_ptr()) +
                  static_cast<std::size_t>(begin - slice.offset) * width,
              stored.bytes.data() + static_cast<std::size_t>(begin - source.offset) * width,
              static_cast<std::size_t>(end - begin) * width);
}

}  // namespace

formats::Manifest load(const Path& directory, const exec::Units& units,
                       const std::vector<arch::UnitSpec>& specs) {
  formats::Manifest manifest = formats::verify_checkpoint(directory);
  check_units(directory, manifest, specs);
  std::map<std::string, formats::SafetensorsFile> files;
  for (const formats::ManifestFile& file : manifest.files)
    files.emplace(file.name, formats::SafetensorsFile(directory / file.name));

  for (const exec::StateSlice& slice : units.local_slices()) {
    bool found = false;
    for (const formats::ManifestSlice& source :
         manifest.units[static_cast<std::size_t>(slice.unit)].slices) {
      if (source.kind != slice.kind) continue;
      found = true;
      const formats::Tensor* stored = files.at(source.file).find(source.tensor);
      TRIREME_CHECK(stored != nullptr, "{} passed verification without {}", source.file,
                    source.tensor);
      copy_overlap(directory, slice, source, *stored);
    }
    if (!found)
      fail(ErrorKind::kData, "{}: unit {} has no {}; resume with the optimizer that wrote it",
           directory.string(), specs[static_cast<std::size_t>(slice.unit)].name, slice.kind);
  }
  return manifest;
}

}  // namespace trireme::ckpt
