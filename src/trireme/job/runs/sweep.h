// Sweeps: runs of one job that differ in some keys.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/job/runs/read_job.h"

namespace trireme::runs {

struct SweepRun {
  std::string name;                      // a word; its directory has it
  std::vector<std::string> assignments;  // "section.key=value"
  std::optional<int> ranks{}, nproc{};   // where the run says them
};

struct Sweep {
  std::string job;  // a file, as seen from the sweep's
  std::vector<SweepRun> runs;
  std::vector<std::string> metrics;  // entries of metrics.jsonl that are compared
};

// Reads a map of `job`, `set` (keys of every run), `runs` (a map from name to keys), `grid` and `metrics`, a list.
// `grid` is a map from a key to its values; each run is made with every combination. runs or grid is required. Keys are
// whole, "section.key"; in `runs` also ranks or nproc, as --ranks and --nproc. Throws Error{kUsage} naming the place,
// for unknown keys and invalid values, for names that are no words, and for more than 4,096 runs.
Sweep parse_sweep(std::string_view text, const std::string& what);
Sweep load_sweep(const Path& path);

// `job` as the run has it: with its ranks, and its keys before those of `job`.
JobOptions job_of(const SweepRun& run, JobOptions job);

}  // namespace trireme::runs
