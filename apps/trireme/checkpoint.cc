// trireme checkpoint ls|inspect|verify: reads manifests and bytes, never a tensor.
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "run_directory.h"
#include "trireme/base/error.h"
#include "trireme/config/job.h"
#include "trireme/formats/checkpoint_files.h"

namespace trireme::app {
namespace {

std::int64_t bytes_of(const formats::Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const formats::ManifestFile& file : manifest.files) bytes += file.size;
  return bytes;
}

Json summary_json(const Path& path, const formats::Manifest& manifest) {
  return {{"checkpoint", path.string()},
          {"step", manifest.step},
          {"consumed_samples", manifest.consumed_samples},
          {"world", manifest.world},
          {"build", manifest.build},
          {"dataset", manifest.dataset_digest},
          {"files", manifest.files.size()},
          {"bytes", bytes_of(manifest)}};
}

Json units_json(const formats::Manifest& manifest) {
  Json units = Json::array();
  for (const formats::ManifestUnit& unit : manifest.units) {
    Json parameters = Json::array();
    for (const formats::ManifestParameter& parameter : unit.parameters)
      parameters.push_back(
          {{"name", parameter.name}, {"shape", parameter.shape}, {"offset", parameter.offset}});
    units.push_back({{"name", unit.name},
                     {"tp_rank", unit.tp_rank},
                     {"tp", unit.tp},
                     {"elements", unit.numel},
                     {"parameters", std::move(parameters)}});
  }
  return units;
}

Path root_of(const Path& path) {
  if (!std::filesystem::is_directory(path))
    fail(ErrorKind::kData, "{}: no such directory; needs a run directory", path.string());
  return std::filesystem::is_directory(path / "checkpoints") ? path / "checkpoints" : path;
}

}  // namespace

int checkpoint_ls(const CheckpointOptions& options) {
  check_output(options.json);
  const Path root = root_of(options.path);
  std::vector<formats::CheckpointEntry> entries = formats::list_checkpoints(root);
  if (entries.empty()) fail(ErrorKind::kData, "{}: holds no checkpoint", root.string());
  std::reverse(entries.begin(), entries.end());
  Json rows = Json::array();
  for (const formats::CheckpointEntry& entry : entries) {
    if (!entry.problem.empty()) {
      fmt::print("{:<14}  unusable: {}\n", entry.path.filename().string(), entry.problem);
      rows.push_back({{"checkpoint", entry.path.string()}, {"problem", entry.problem}});
      continue;
    }
    const formats::Manifest manifest = formats::read_manifest(entry.path);
    fmt::print("{:<14}  {:>10.1f} MB  written by {} {}  {} samples consumed\n",
               entry.path.filename().string(), static_cast<double>(bytes_of(manifest)) / 1e6,
               manifest.world, manifest.world == 1 ? "rank" : "ranks", manifest.consumed_samples);
    rows.push_back(summary_json(entry.path, manifest));
  }
  write_json(options.json, rows);
  return 0;
}

int checkpoint_inspect(const CheckpointOptions& options) {
  check_output(options.json);
  const Path path = find_checkpoint(options.path);
  const formats::Manifest manifest = formats::read_manifest(path);
  std::int64_t elements = 0;  // copies that tp ranks hold of one another's parameters included
  for (const formats::ManifestUnit& unit : manifest.units) elements += unit.numel;
  const std::int64_t parts = manifest.units.empty() ? 1 : manifest.units[0].tp;
  fmt::print(
      "checkpoint  {}\nstep        {}\nsamples     {} consumed\nworld       {}\nbuild       "
      "{}\ndataset     {}\n",
      path.string(), manifest.step, manifest.consumed_samples, manifest.world, manifest.build,
      manifest.dataset_digest.empty() ? "(none)" : manifest.dataset_digest);
  fmt::print("size        {} bytes in {} files, {} elements of parameters in {} units{}\n\n",
             bytes_of(manifest), manifest.files.size(), elements,
             static_cast<std::int64_t>(manifest.units.size()) / parts,
             parts > 1 ? fmt::format(", each in {} parts for tp", parts) : "");
  for (const formats::ManifestUnit& unit : manifest.units) {
    std::map<std::string, int> slices;
    for (const formats::ManifestSlice& slice : unit.slices) ++slices[slice.kind];
    std::string kinds;
    for (const auto& [kind, count] : slices)
      kinds += fmt::format("{}{} x{}", kinds.empty() ? "" : ", ", kind, count);
    const std::string part =
        unit.tp > 1 ? fmt::format(" of tp rank {} of {}", unit.tp_rank, unit.tp) : "";
    fmt::print("{}{}  {} elements: {}\n", unit.name, part, unit.numel, kinds);
    for (const formats::ManifestParameter& parameter : unit.parameters)
      fmt::print("    {:<44} [{}] at {}\n", parameter.name,
                 fmt::format("{}", fmt::join(parameter.shape, ", ")), parameter.offset);
  }
  fmt::print("\n{}", manifest.job);
  Json json = summary_json(path, manifest);
  json["units"] = units_json(manifest);
  json["job"] = manifest.job;
  write_json(options.json, json);
  return 0;
}

int checkpoint_verify(const CheckpointOptions& options) {
  check_output(options.json);
  const Path path = find_checkpoint(options.path);
  const formats::Manifest manifest = formats::verify_checkpoint(path);
  config::parse_job(manifest.job, path.string());
  fmt::print("{}: every byte is as it was written ({} files, {} bytes, step {})\n", path.string(),
             manifest.files.size(), bytes_of(manifest), manifest.step);
  write_json(options.json, summary_json(path, manifest));
  return 0;
}

}  // namespace trireme::app
