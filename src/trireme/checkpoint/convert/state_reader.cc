#include "trireme/checkpoint/convert/state_reader.h"

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/described.h"

namespace trireme::convert {

std::optional<Kind> stored_kind(const formats::OpenCheckpoint& open,
                                const formats::ManifestUnit& part, const std::string& name) {
  for (const formats::ManifestSlice& slice : part.slices)
    if (const auto file = open.files.find(slice.file);
        slice.kind == name && file != open.files.end())
      return Kind{
          .name = name, .type = file->second.find(slice.tensor)->dtype, .block = slice.block};
  return std::nullopt;
}

void read_slices(const formats::OpenCheckpoint& open, const formats::ManifestUnit& part,
                 const Kind& kind, std::int64_t offset, std::span<std::byte> out) {
  const std::size_t width = size_of(kind.type);
  const std::int64_t last = offset + static_cast<std::int64_t>(out.size() / width);
  for (const formats::ManifestSlice& slice : part.slices) {
    const std::int64_t begin = std::max(offset, slice.offset);
    const std::int64_t end = std::min(last, slice.offset + slice.length);
    if (slice.kind != kind.name || begin >= end) continue;
    const formats::Tensor* tensor = open.files.at(slice.file).find(slice.tensor);
    if (tensor->dtype != kind.type)
      fail(ErrorKind::kData, "{}: {} of unit {} is {}, and {} in another file", slice.file,
           kind.name, part.name, name(tensor->dtype), name(kind.type));
    std::memcpy(out.data() + static_cast<std::size_t>(begin - offset) * width,
                tensor->bytes.data() + static_cast<std::size_t>(begin - slice.offset) * width,
                static_cast<std::size_t>(end - begin) * width);
  }
}

StateReader::StateReader(const Path& directory, const std::vector<model::UnitSpec>& specs,
                         const std::optional<std::set<std::string>>& only)
    : directory_(directory),
      open_(formats::open_checkpoint(directory, os::real_file_system(), only)),
      specs_(specs),
      places_(unit_places(open_.manifest, specs, directory.string())),
      owned_(specs.size()) {
  if (!open_.manifest.units.empty()) parts_ = static_cast<int>(open_.manifest.units[0].tp);
  for (std::size_t unit = 0; unit < specs.size(); ++unit) {
    for (int part = 0; part < parts_; ++part)
      for (const Run& run : runs(specs[unit], part, parts_, /*owned=*/true))
        owned_[unit].push_back(run);
    std::ranges::sort(owned_[unit], {}, &Run::global);
  }
}

// What a part holds, in the order of its elements; of elements that several hold, if so asked, what it owns.
std::vector<StateReader::Run> StateReader::runs(const model::UnitSpec& spec, int part, int parts,
                                                bool owned) {
  std::vector<Run> runs;
  std::int64_t global = 0, local = 0;
  for (const model::ParamSpec& param : spec.params) {
    const model::LocalParam here = model::local_param(param, part, parts);
    for (const model::Extent& extent : here.extents)
      if (extent.owned || !owned)
        runs.push_back({.global = global + extent.global,
                        .local = local + extent.local,
                        .count = extent.count,
                        .part = part});
    global += param.numel();
    local += here.numel();
  }
  return runs;
}

const formats::ManifestUnit& StateReader::part_of(std::size_t unit, int part) const {
  TRIREME_CHECK(places_[unit] >= 0, "unit {} is not in the checkpoint", specs_[unit].name);
  return open_.manifest.units[places_[unit] * parts_ + part];
}

std::vector<Kind> StateReader::kinds(std::size_t unit) const {
  std::vector<Kind> kinds;
  if (places_[unit] < 0) return kinds;
  for (const formats::ManifestSlice& slice : part_of(unit, 0).slices)
    if (std::ranges::find(kinds, slice.kind, &Kind::name) == kinds.end())
      kinds.push_back({.name = slice.kind,
                       .type = open_.files.at(slice.file).find(slice.tensor)->dtype,
                       .block = slice.block});
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](const Kind& kind) { return kind.name == "param"; });
  return kinds;
}

std::optional<Kind> StateReader::kind(std::size_t unit, const std::string& name) const {
  for (int part = 0; part < parts_; ++part)
    if (const std::optional<Kind> kind = stored_kind(open_, part_of(unit, part), name)) return kind;
  return std::nullopt;
}

void StateReader::read_global(std::size_t unit, std::int64_t global, std::int64_t count,
                              const Kind& kind, std::byte* out) const {
  const std::vector<Run>& owned = owned_[unit];
  auto run = std::ranges::upper_bound(owned, global, {}, &Run::global);
  for (--run; count > 0; ++run) {
    const std::int64_t skipped = global - run->global;
    const std::int64_t here = std::min(count, run->count - skipped);
    const std::size_t bytes = static_cast<std::size_t>(here) * size_of(kind.type);
    read_slices(open_, part_of(unit, run->part), kind, run->local + skipped, {out, bytes});
    out += bytes;
    global += here;
    count -= here;
  }
}

void StateReader::read(const PartRange& range, const Kind& kind, std::span<std::byte> out) const {
  const std::size_t width = size_of(kind.type);
  TRIREME_CHECK(out.size() == static_cast<std::size_t>(range.count) * width,
                "{} bytes for {} elements of {}", out.size(), range.count, name(kind.type));
  if (range.parts == parts_) {
    read_slices(open_, part_of(range.unit, range.part), kind, range.offset, out);
    return;
  }
  if (kind.block != 1)
    fail(ErrorKind::kData,
         "{}: {} of unit {} has one number for {} elements, which cannot be cut for tp={}; keep "
         "parallel.tp={}",
         directory_.string(), kind.name, specs_[range.unit].name, kind.block, range.parts, parts_);
  for (const Run& run : runs(specs_[range.unit], range.part, range.parts, /*owned=*/false)) {
    const std::int64_t begin = std::max(run.local, range.offset);
    const std::int64_t end = std::min(run.local + run.count, range.offset + range.count);
    if (begin < end)
      read_global(range.unit, run.global + (begin - run.local), end - begin, kind,
                  out.data() + static_cast<std::size_t>(begin - range.offset) * width);
  }
}

std::vector<std::byte> StateReader::read_whole(std::size_t unit, std::size_t param,
                                               const Kind& kind) const {
  std::int64_t offset = 0;
  for (std::size_t before = 0; before < param; ++before)
    offset += specs_[unit].params[before].numel();
  const std::int64_t count = specs_[unit].params[param].numel();
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(kind.type));
  read({.unit = unit, .offset = offset, .count = count}, kind, bytes);
  return bytes;
}

}  // namespace trireme::convert
