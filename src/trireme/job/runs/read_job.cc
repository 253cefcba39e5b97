#include "trireme/job/runs/read_job.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/config/data_sets.h"
#include "trireme/config/families.h"
#include "trireme/config/parse.h"
#include "trireme/config/paths.h"
#include "trireme/config/synthetic.h"
#include "trireme/config/weights.h"
#include "trireme/data/text/dataset_files.h"
#include "trireme/job/runs/run_directory.h"
#include "trireme/job/runs/weights.h"

namespace trireme::runs {
namespace {

namespace fs = std::filesystem;

config::Job phase_job(const JobOptions& options, const config::Job& base) {
  for (const config::Phase& phase : config::load_phases(options.file, base)) {
    if (phase.name.empty())
      fail(ErrorKind::kUsage, "--phase {}: {} has no phases; leave it out", options.phase,
           options.file);
    if (phase.name == options.phase) return phase.job;
  }
  fail(ErrorKind::kUsage, "--phase {}: {} has the phases {}", options.phase, options.file,
       config::phase_names(config::load_phases(options.file)));
}

config::Job read_over(const JobOptions& options, const config::Job& base) {
  config::Job job =
      options.phase.empty() ? config::load_job_over(base, options.file) : phase_job(options, base);
  for (const std::string& assignment : options.assignments) config::apply_set(job, assignment);
  return job;
}

}  // namespace

config::Job with_absolute_paths(config::Job job) {
  const auto absolute = [](std::string_view path) {
    return std::filesystem::absolute(path).lexically_normal().string();
  };
  for (std::string* path : config::paths_of(job)) {
    if (path->empty()) continue;
    if (path != &job.data.path || job.data.weights.empty()) {
      *path = absolute(*path);
      continue;
    }
    std::string list;  // of several data sets
    for (const config::DataSet& set : config::data_sets(job.data))
      list += (list.empty() ? "" : ",") + absolute(set.path);
    *path = std::move(list);
  }
  return job;
}

bool takes_vocabulary(const config::Job& job) {
  std::error_code cause;
  const config::Data& data = job.data;
  if (config::info(job).tokenizes_questions && job.vlm.tower == config::VlmTower::kVit) return true;
  return config::reads_text(data.source) &&
         (data.path.empty() ||
          !std::filesystem::exists(Path(data.path) / text::kDatasetName, cause));
}

config::Job read_job(const JobOptions& options, const Path& run) {
  if (options.file.empty())
    fail(ErrorKind::kUsage, "which job? Give a job.yaml, such as recipes/quickstart.yaml");
  config::check_allowed(options.allow);
  const config::Job job = read_over(options, {});
  const std::optional<Origin> origin = origin_of(job.model.weights, run);
  if (!origin) return job;
  config::Job base;
  base.model.family = origin->job.model.family;
  base = config::defaults_from(origin->job, read_over(options, base).model.family);
  const bool other_vocabulary =
      std::ranges::find(options.allow, config::kVocabularyKey) != options.allow.end();
  if (!other_vocabulary && takes_vocabulary(read_over(options, base)))
    base.data.tokenizer = origin->vocabulary.value_or(Path(base.data.tokenizer)).string();
  config::Job over = read_over(options, base);
  if (over.model.heads == base.model.heads) return over;
  // The key-value heads of the weights may not fit other heads, which the comparison with the weights names.
  base.model.kv_heads = 0;
  return read_over(options, base);
}

JobOptions with_job_of_run(JobOptions options, const Path& run, bool placed) {
  if (!options.file.empty() || run.empty()) return options;
  const Path job = run / kLockedJobName;
  std::error_code absent;
  if (!fs::is_regular_file(job, absent))
    fail(ErrorKind::kUsage,
         "--out {} without a JOB: there is no {} to resume with; give the job, or the directory of "
         "a run",
         run.string(), job.string());
  options.file = job.string();
  options.assignments.insert(options.assignments.begin(),
                             "data.tokenizer=" + tokenizer_of_run(run, config::load_job(job)));
  if (placed || options.ranks || options.nproc || !fs::is_regular_file(run / kPlaceName, absent))
    return options;
  std::istringstream place(read_file(run / kPlaceName));
  std::string as;
  int ranks = 0;
  if (!(place >> as >> ranks) || (as != "ranks" && as != "nproc") || ranks < 1)
    fail(ErrorKind::kData, "{}: needs `ranks N` or `nproc N`; give --ranks or --nproc",
         (run / kPlaceName).string());
  (as == "nproc" ? options.nproc : options.ranks) = ranks;
  return options;
}

std::string job_name(const JobOptions& options) {
  const std::string stem = std::filesystem::path(options.file).stem().string();
  const std::string phase = options.phase.empty() ? "" : "-" + options.phase;
  return (stem.empty() ? "job" : stem) + phase;
}

}  // namespace trireme::runs
