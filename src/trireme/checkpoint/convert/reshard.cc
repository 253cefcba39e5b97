#include "trireme/checkpoint/convert/reshard.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/checkpoint/convert/described.h"
#include "trireme/checkpoint/convert/state_reader.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/plan/saved.h"

namespace trireme::convert {
namespace {

// One rank's file, and what of it belongs to which unit.
struct Written {
  formats::ManifestFile file;
  std::vector<std::pair<std::size_t, formats::ManifestSlice>> slices;
};

Written write_rank(const StateReader& stored, const Target& to, int rank, const Path& directory) {
  const int parts = to.plan.mesh.degree(mesh::Axis::kTp);
  const int part = to.plan.mesh.coordinate(rank, mesh::Axis::kTp);
  Written written{.file = {.name = fmt::format("rank-{:05}.safetensors", rank)}};
  std::vector<formats::TensorInfo> tensors;
  std::vector<std::pair<PartRange, Kind>> contents;
  for (const plan::SavedRange& range : plan::saved_ranges(to.plan, rank)) {
    const auto unit = static_cast<std::size_t>(range.unit);
    const model::UnitSpec& spec = to.model.units[unit];
    const std::int64_t end = std::min(range.end, manifest_unit(spec, part, parts).numel);
    if (range.begin >= end) continue;
    for (const Kind& kind : stored.kinds(unit)) {
      const std::int64_t first = range.begin / kind.block;
      const std::int64_t count = (end + kind.block - 1) / kind.block - first;
      contents.push_back(
          {{.unit = unit, .part = part, .parts = parts, .offset = first, .count = count}, kind});
      tensors.push_back(
          {.name = spec.name + "." + kind.name, .dtype = kind.type, .shape = {count}});
      written.slices.push_back({unit,
                                {.file = written.file.name,
                                 .tensor = tensors.back().name,
                                 .kind = kind.name,
                                 .offset = first,
                                 .length = count,
                                 .block = kind.block}});
    }
  }
  if (tensors.empty()) return {};
  std::vector<std::byte> now;
  written.file =
      formats::write_shard(os::real_file_system(), directory, written.file.name,
                           stored.manifest().step, tensors, [&](std::size_t index) {
                             const auto& [range, kind] = contents[index];
                             now.resize(static_cast<std::size_t>(range.count) * size_of(kind.type));
                             stored.read(range, kind, now);
                             return std::span<const std::byte>(now);
                           });
  return written;
}

formats::Manifest manifest_of(const StateReader& stored, const Target& to) {
  const formats::Manifest& from = stored.manifest();
  return {.step = from.step,
          .world = to.plan.mesh.world(),
          .layout = manifest_layout(to.plan.mesh),
          .consumed_samples = from.consumed_samples,
          .dataset_digest = from.dataset_digest,
          .vocabulary = from.vocabulary,
          .eval_loss = from.eval_loss,
          .job = config::print_yaml(to.job),
          .train_state = from.train_state,
          .build = from.build,
          .base = from.base};
}

}  // namespace

Path reshard(const Path& from, const Target& to, const Path& root) {
  const StateReader stored(from, to.model.units);
  config::check_resumable(config::parse_job(stored.manifest().job, from.string()), to.job);
  formats::Manifest manifest = manifest_of(stored, to);
  const Path final = root / fmt::format("step-{}", manifest.step);
  if (std::filesystem::exists(final))
    fail(ErrorKind::kUsage, "{} is there already; choose another directory", final.string());
  make_directories(root);
  formats::CheckpointDraft draft(os::real_file_system(), root, manifest.step);

  const int parts = to.plan.mesh.degree(mesh::Axis::kTp);
  std::vector<std::size_t> places(to.model.units.size());
  for (std::size_t unit = 0; unit < places.size(); ++unit) {
    places[unit] = manifest.units.size();
    for (int part = 0; part < parts && !stored.kinds(unit).empty(); ++part)
      manifest.units.push_back(manifest_unit(to.model.units[unit], part, parts));
  }
  for (int rank = 0; rank < to.plan.mesh.world(); ++rank) {
    Written written =
        write_rank(stored, to, rank, formats::CheckpointDraft::directory(root, manifest.step));
    if (written.slices.empty()) continue;
    const auto part = static_cast<std::size_t>(to.plan.mesh.coordinate(rank, mesh::Axis::kTp));
    for (auto& [unit, slice] : written.slices)
      manifest.units[places[unit] + part].slices.push_back(std::move(slice));
    manifest.files.push_back(std::move(written.file));
  }
  for (formats::ManifestUnit& unit : manifest.units)
    std::ranges::stable_sort(unit.slices, [](const auto& a, const auto& b) {
      return std::tie(a.kind, a.offset) < std::tie(b.kind, b.offset);
    });
  return draft.commit(manifest);
}

}  // namespace trireme::convert
