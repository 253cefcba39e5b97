// trireme plan: the best layouts of a job on a cluster, with memory, time, money and reasons.
#include "plan.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/trireme/bench/calibration.h"
#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/fs.h"
#include "trireme/base/json.h"
#include "trireme/config/families.h"
#include "trireme/config/links/links_file.h"
#include "trireme/config/values/yaml.h"
#include "trireme/planner/hardware/cluster_file.h"
#include "trireme/planner/search/report/answer_print.h"
#include "trireme/planner/search/report/question.h"
#include "trireme/planner/search/search.h"

namespace trireme::app {
namespace {

// "parallel.tp" of "--parallel.tp=4".
std::string key_of(std::string_view assignment) {
  if (assignment.starts_with("--")) assignment.remove_prefix(2);
  return std::string(assignment.substr(0, assignment.find('=')));
}

// The keys that a search would choose and the user has set, in the file or after it.
std::vector<std::string> set_keys(const JobOptions& job) {
  std::vector<std::string> keys;
  const auto add = [&](const std::string& key) {
    if (planner::chosen(key) && std::ranges::count(keys, key) == 0) keys.push_back(key);
  };
  const config::YamlNode root = config::parse_yaml(read_file(job.file), job.file);
  for (std::size_t section = 0; section < root.keys.size(); ++section)
    for (const config::YamlNode& key : root.items[section].keys)
      add(root.keys[section].text + "." + key.text);
  for (const std::string& assignment : job.assignments) add(key_of(assignment));
  return keys;
}

void check_options(const PlanOptions& options) {
  if (options.gpus && *options.gpus < 1)
    fail(ErrorKind::kUsage, "--gpus {}: a plan needs 1 or more", *options.gpus);
  for (const auto& [key, number] :
       {std::pair("--tokens", options.tokens), {"--deadline", options.deadline}})
    if (number && !(*number > 0 && std::isfinite(*number)))
      fail(ErrorKind::kUsage, "{} {}: needs a number of more than 0, such as 300e9", key, *number);
  if (!options.keep)
    for (const std::string& assignment : options.job.assignments)
      if (planner::chosen(key_of(assignment)))
        fail(ErrorKind::kUsage,
             "{} would be chosen again; add --keep to keep the job's values of {} and the like, or "
             "leave it out",
             assignment, key_of(assignment));
  check_output(options.out, "--out");
  check_output(options.json);
  std::error_code ignored;
  if (std::filesystem::equivalent(options.out, options.job.file, ignored))
    fail(ErrorKind::kUsage, "--out {}: is the job itself; write to another file", options.out);
}

// Says what is being done, where somebody looks on and waits.
class Progress {
 public:
  void operator()(const std::string& what) {
    if (!looked_at_ || watch_.seconds() < 1) return;
    fmt::print(stderr, "\r\033[K{}", what.substr(0, 100));
    std::fflush(stderr);
    shown_ = true;
  }
  void end() const {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  Stopwatch watch_;
  bool looked_at_ = ::isatty(STDERR_FILENO) == 1;
  bool shown_ = false;
};

// The command line of this question, to repeat it.
std::string command_of(const PlanOptions& options) {
  std::string line = fmt::format("trireme plan {} --cluster {}", options.job.file, options.cluster);
  if (options.gpus) line += fmt::format(" --gpus {}", *options.gpus);
  if (options.as != "today") line += fmt::format(" --as {}", options.as);
  if (options.by != "time") line += fmt::format(" --by {}", options.by);
  if (!options.links.empty()) line += " --links " + options.links;
  if (!options.allow.empty()) line += fmt::format(" --allow {}", fmt::join(options.allow, ","));
  if (options.max_loss) line += fmt::format(" --max-loss {}", *options.max_loss);
  if (options.keep) line += " --keep";
  if (options.expandable) line += " --expandable-segments";
  if (!options.job.assignments.empty())
    line += fmt::format(" --set {}", fmt::join(options.job.assignments, " "));
  return line;
}

std::string job_text(const planner::Answer& answer, const PlanOptions& options) {
  const planner::Option& best = answer.options.front();
  return fmt::format("# {}\n# {} a step forecast on {} of {}: {}\n{}", planner::text(best.layout),
                     fmt::format("{:.4g} s", best.seconds),
                     planner::devices(answer.question.cluster, best.layout.world()),
                     answer.question.cluster.name, command_of(options),
                     config::print_yaml(best.job));
}

// A calibration that is given as the cluster may be of another machine, which is planned for then.
std::string note_of(const std::string& cluster) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(cluster, ignored)) return "";
  const std::string text = read_file(cluster);
  if (!planner::is_calibration(text)) return "";
  const std::string why = of_another(planner::parse_calibration(text, cluster));
  return why.empty() ? "" : why + ": forecasts are of that one";
}

}  // namespace

int plan(const PlanOptions& options) {
  check_options(options);
  planner::Question question{.job = read_job(options.job),
                             .cluster = planner::find_cluster(options.cluster)};
  if (!options.links.empty())
    question.cluster =
        planner::with_links(std::move(question.cluster), config::read_links(options.links));
  question.gpus = options.gpus.value_or(0);
  question.as = options.as == "today" ? planner::RuntimeAs::kToday : planner::RuntimeAs::kPlanned;
  question.practice = planner::practice_of(question.as);
  const bool decoder = config::info(question.job).chain;
  if (!decoder || question.job.model.vocab == 0) {
    const config::DatasetFacts facts = known_facts(question.job.data);
    if (decoder)
      question.job.model.vocab = facts.vocab;
    else
      question.data = facts;
  }
  if (options.keep) question.kept = set_keys(options.job);
  question.expandable = options.expandable;
  Progress progress;
  const planner::Settings settings{
      .by = options.by == "money" ? planner::Objective::kMoney : planner::Objective::kTime,
      .options = options.top,
      .allow = options.allow,
      .max_loss = options.max_loss,
      .progress = [&](const std::string& what) { progress(what); }};
  planner::Answer answer;
  try {
    answer = planner::search(std::move(question), settings);
  } catch (const Error&) {
    progress.end();
    throw;
  }
  progress.end();
  if (const std::string note = note_of(options.cluster); !note.empty())
    answer.notes.push_back(note);
  const double whole =
      static_cast<double>(answer.options.front().job.run.steps) * answer.options.front().tokens();
  const planner::Spending spending =
      planner::spending(answer.question, answer.options.front(), options.tokens.value_or(whole),
                        options.deadline.value_or(0));
  if (!options.out.empty()) write_file_synced(options.out, job_text(answer, options));
  if (options.format == "json")
    fmt::print("{}\n", planner::answer_json(answer, spending).dump(1));
  else
    fmt::print("{}", planner::answer_text(answer, spending));
  write_json(options.json, planner::answer_json(answer, spending));
  if (!options.out.empty() && options.format == "table")
    fmt::print("\nwritten   {}\n", options.out);
  return 0;
}

}  // namespace trireme::app
