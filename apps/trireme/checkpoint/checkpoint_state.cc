#include "checkpoint_state.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "apps/trireme/environment.h"
#include "trireme/base/error.h"
#include "trireme/base/os/file_facts.h"
#include "trireme/config/job.h"
#include "trireme/formats/checkpoint_draft.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/job/runs/verdicts.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

// Every name in a directory, manifest included. A run may delete the directory meanwhile.
std::vector<Path> files_in(const Path& checkpoint) {
  std::vector<Path> files;
  std::error_code cause;
  for (fs::directory_iterator at(checkpoint, cause), end; !cause && at != end; at.increment(cause))
    files.push_back(at->path());
  std::sort(files.begin(), files.end());
  return files;
}

bool is_unfinished(const Path& checkpoint) {
  return checkpoint.filename().string().ends_with(formats::kUnfinishedSuffix);
}

// A report of what needs no bytes: no manifest, or one that cannot be read.
CheckpointReport read_report(const Path& checkpoint) {
  CheckpointReport report{.path = checkpoint};
  std::error_code absent;
  if (is_unfinished(checkpoint) || !fs::exists(checkpoint / formats::kManifestName, absent)) {
    report.state = CheckpointState::kIncomplete;
    report.problem = is_unfinished(checkpoint)
                         ? "it is still being written, or its writer was killed"
                         : fmt::format("{}: is missing; a copy or a deletion was not finished",
                                       (checkpoint / formats::kManifestName).string());
    return report;
  }
  try {
    report.manifest = formats::read_manifest(checkpoint);
    if (const auto step = formats::step_of(checkpoint.filename().string());
        step && *step != report.manifest->step)
      fail(ErrorKind::kData, "{}: its manifest is of step {}", checkpoint.string(),
           report.manifest->step);
    config::parse_job(report.manifest->job, (checkpoint / formats::kManifestName).string());
  } catch (const Error& error) {
    report.state = CheckpointState::kDamaged;
    report.problem = error.what();
  }
  return report;
}

void take_verdict(CheckpointReport& report, const std::string& problem) {
  report.state = problem.empty() ? CheckpointState::kVerified : CheckpointState::kDamaged;
  report.problem = problem;
}

// Whether sizes, names or times say that files are not those that were written.
bool looks_changed(const CheckpointReport& report, const std::vector<Path>& files) {
  std::map<std::string, std::int64_t> sizes;
  for (const formats::ManifestFile& file : report.manifest->files) sizes[file.name] = file.size;
  std::size_t found = 0;
  for (const Path& file : files) {
    const auto known = sizes.find(file.filename().string());
    const auto facts = os::facts_of(file);
    if (known == sizes.end()) {
      if (file.extension() == ".safetensors") return true;
      continue;
    }
    ++found;
    if (!facts || facts->size != known->second) return true;
  }
  return found < sizes.size() ||
         !os::changed_after(report.path / formats::kManifestName, files).empty();
}

}  // namespace

const char* name(CheckpointState state) {
  switch (state) {
    case CheckpointState::kVerified: return "verified";
    case CheckpointState::kUnverified: return "unverified";
    case CheckpointState::kDamaged: return "damaged";
    case CheckpointState::kIncomplete: return "incomplete";
  }
  return "";
}

std::vector<Path> checkpoints_below(const Path& root) {
  std::vector<std::pair<std::int64_t, Path>> found;
  const std::size_t suffix = std::string_view(formats::kUnfinishedSuffix).size();
  std::error_code cause;
  for (fs::directory_iterator at(root, cause), end; !cause && at != end; at.increment(cause)) {
    std::string name = at->path().filename().string();
    if (is_unfinished(name)) name.resize(name.size() - suffix);
    if (const auto step = formats::step_of(name)) found.emplace_back(*step, at->path());
  }
  if (cause) fail(ErrorKind::kData, "{}: {}", root.string(), cause.message());
  std::sort(found.begin(), found.end());
  std::vector<Path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

CheckpointReport verify_bytes(const Path& checkpoint) {
  CheckpointReport report = read_report(checkpoint);
  if (!report.problem.empty()) return report;
  const CheckedFiles checked(cache_directory, checkpoint, files_in(checkpoint));
  try {
    formats::verify_checkpoint(checkpoint);
    take_verdict(report, "");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kData) throw;
    take_verdict(report, error.what());
  }
  checked.keep(report.problem);
  return report;
}

CheckpointReport look_at(const Path& checkpoint) {
  CheckpointReport report = read_report(checkpoint);
  if (!report.problem.empty()) return report;
  const std::vector<Path> files = files_in(checkpoint);
  if (const auto verdict = CheckedFiles(cache_directory, checkpoint, files).verdict())
    take_verdict(report, *verdict);
  else if (looks_changed(report, files))
    return verify_bytes(checkpoint);
  return report;
}

}  // namespace trireme::app
