// trireme checkpoint ls|inspect|verify: reads manifests and bytes, never a tensor.
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "checkpoint_state.h"
#include "trireme/base/error.h"
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

// The step-N directories of a run, at least one.
std::vector<Path> checkpoints_of(const Path& run) {
  const Path root = checkpoint_root(run);
  std::vector<Path> found = checkpoints_below(root);
  if (found.empty())
    fail(ErrorKind::kData, "{}: holds no checkpoint (step-N below it or below its checkpoints)",
         root.string());
  return found;
}

void print_report(const CheckpointReport& report) {
  const std::string begin =
      fmt::format("{:<14}  {:<10}  ", report.path.filename().string(), name(report.state));
  if (!report.problem.empty()) {
    fmt::print("{}{}\n", begin, report.problem);
    return;
  }
  const formats::Manifest& manifest = *report.manifest;
  fmt::print("{}{:>10.1f} MB  written by {} {}  {} samples consumed\n", begin,
             static_cast<double>(bytes_of(manifest)) / 1e6, manifest.world,
             manifest.world == 1 ? "rank" : "ranks", manifest.consumed_samples);
}

Json report_json(const CheckpointReport& report) {
  Json json = report.manifest ? summary_json(report.path, *report.manifest)
                              : Json{{"checkpoint", report.path.string()}};
  json["state"] = name(report.state);
  if (!report.problem.empty()) json["problem"] = report.problem;
  return json;
}

// Reads every byte of each checkpoint and names those that cannot be used.
int verify_run(const Path& run, const std::string& json) {
  const std::vector<Path> found = checkpoints_of(run);
  std::vector<std::string> unusable;
  Json rows = Json::array();
  for (const Path& checkpoint : found) {
    const CheckpointReport report = verify_bytes(checkpoint);
    print_report(report);
    rows.push_back(report_json(report));
    std::fflush(stdout);
    // A writer may still be at work on one that has not got its name yet.
    if (!report.problem.empty() && formats::step_of(checkpoint.filename().string()))
      unusable.push_back(checkpoint.filename().string());
  }
  write_json(json, rows);
  if (unusable.empty()) return 0;
  fail(ErrorKind::kData,
       "{}: {} of {} checkpoints cannot be used: {}; delete {}, or restore the files from a copy",
       run.string(), unusable.size(), found.size(), fmt::join(unusable, ", "),
       unusable.size() == 1 ? "it" : "them");
}

}  // namespace

int checkpoint_ls(const CheckpointOptions& options) {
  check_output(options.json);
  check_directory(options.path);
  Json rows = Json::array();
  bool unverified = false;
  for (const Path& checkpoint : checkpoints_of(options.path)) {
    const CheckpointReport report = look_at(checkpoint);
    print_report(report);
    rows.push_back(report_json(report));
    unverified |= report.state == CheckpointState::kUnverified;
  }
  if (unverified)
    fmt::print(
        "\nunverified: unchanged since it was written, by its times; trireme checkpoint "
        "verify reads every byte\n");
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
  check_directory(options.path);
  if (!is_checkpoint(options.path)) return verify_run(options.path, options.json);
  const CheckpointReport report = verify_bytes(std::filesystem::canonical(options.path));
  write_json(options.json, report_json(report));
  if (!report.problem.empty()) fail(ErrorKind::kData, "{}", report.problem);
  fmt::print("{}: every byte is as it was written ({} files, {} bytes, step {})\n",
             report.path.string(), report.manifest->files.size(), bytes_of(*report.manifest),
             report.manifest->step);
  return 0;
}

}  // namespace trireme::app
