#include "variants.h"

#include "trireme/base/error.h"
#include "trireme/job/runs/sweep.h"

namespace trireme::app {

std::vector<Variant> variants(const std::string& sweep, const JobOptions& job,
                              const std::string& only) {
  const runs::Sweep all = runs::load_sweep(sweep);
  std::vector<Variant> found;
  for (const runs::SweepRun& run : all.runs) {
    if (run.name.find(only) == std::string::npos) continue;
    JobOptions own = runs::job_of(run, job);
    if (own.file.empty()) own.file = (Path(sweep).parent_path() / all.job).string();
    found.push_back(
        {.name = run.name, .place = find_place(own.ranks, own.nproc), .job = read_job(own)});
  }
  if (found.empty())
    fail(ErrorKind::kUsage, "--only {}: no run of {} has this in its name", only, sweep);
  return found;
}

}  // namespace trireme::app
