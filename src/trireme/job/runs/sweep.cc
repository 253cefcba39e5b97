#include "trireme/job/runs/sweep.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "trireme/base/error.h"
#include "trireme/config/job.h"
#include "trireme/config/values/yaml.h"

namespace trireme::runs {
namespace {

constexpr std::size_t kMostRuns = 4096;

using config::quote;
using config::YamlNode;
using Kind = YamlNode::Kind;

[[noreturn]] void refuse(const std::string& what, const YamlNode& at, const std::string& why) {
  fail(ErrorKind::kUsage, "{}:{}:{}: {}", what, at.line, at.column, why);
}

const YamlNode* find(const YamlNode& map, std::string_view key, Kind kind, const char* form,
                     const std::string& what) {
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    if (map.keys[i].text != key) continue;
    if (map.items[i].kind != kind) refuse(what, map.keys[i], fmt::format("{} is {}", key, form));
    return &map.items[i];
  }
  return nullptr;
}

// "section.key=value", tried on a job of its own.
std::string assignment(const YamlNode& key, const YamlNode& value, const std::string& what) {
  std::string text = value.text;
  if (value.kind == Kind::kList) {
    for (const YamlNode& item : value.items) text += (text.empty() ? "[" : ", ") + item.text;
    text += "]";
  } else if (value.kind == Kind::kMap) {
    refuse(what, value,
           fmt::format("{} takes a value; keys of a sweep are whole, such as "
                       "model.layers: 4",
                       quote(key.text)));
  }
  const std::string written = key.text + "=" + text;
  config::Job scratch;
  try {
    config::apply_set(scratch, written);
  } catch (const Error& error) {
    refuse(what, key, error.what());
  }
  return written;
}

std::vector<std::string> assignments(const YamlNode& map, const std::string& what) {
  std::vector<std::string> all;
  if (map.kind != Kind::kMap && map.kind != Kind::kNull)
    refuse(what, map, "needs keys and values, such as {optim.lr: 1e-3}");
  for (std::size_t i = 0; i < map.keys.size(); ++i)
    all.push_back(assignment(map.keys[i], map.items[i], what));
  return all;
}

// What a value looks like in a name.
std::string as_word(std::string_view text) {
  std::string word;
  for (const char c : text)
    word += std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' ? c : '_';
  return word;
}

int count_of(const YamlNode& key, const YamlNode& value, const std::string& what) {
  int count = 0;
  const std::string& text = value.text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (value.kind != Kind::kScalar || error != std::errc() || end != text.data() + text.size() ||
      count < 1)
    refuse(what, key, fmt::format("{} needs a number of ranks, 1 or more", key.text));
  return count;
}

// The keys of a run, and how many ranks it has.
SweepRun run_of(const std::string& name, const YamlNode& map, const std::string& what) {
  SweepRun run{.name = name};
  YamlNode keys = map;
  keys.keys.clear();
  keys.items.clear();
  for (std::size_t i = 0; i < map.keys.size(); ++i) {
    const YamlNode &key = map.keys[i], &value = map.items[i];
    if (key.text == "ranks" || key.text == "nproc") {
      if (run.ranks || run.nproc) refuse(what, key, "a run has either ranks or nproc, once");
      (key.text == "ranks" ? run.ranks : run.nproc) = count_of(key, value, what);
    } else {
      keys.keys.push_back(key);
      keys.items.push_back(value);
    }
  }
  run.assignments = assignments(keys, what);
  return run;
}

std::vector<SweepRun> named_runs(const YamlNode* runs, const std::string& what) {
  if (runs == nullptr) return {{}};
  std::vector<SweepRun> named;
  for (std::size_t i = 0; i < runs->keys.size(); ++i) {
    const YamlNode& name = runs->keys[i];
    if (as_word(name.text) != name.text || name.text.starts_with('.'))
      refuse(what, name, "the name of a run: needs a word of letters, digits, _, - and .");
    named.push_back(run_of(name.text, runs->items[i], what));
  }
  return named;
}

// Every run with every value of one more key.
std::vector<SweepRun> spread(const std::vector<SweepRun>& runs, const YamlNode& key,
                             const YamlNode& values, const std::string& what) {
  if (values.kind != Kind::kList || values.items.empty())
    refuse(what, key, "needs a list of values, such as [1e-3, 3e-3]");
  if (runs.size() * values.items.size() > kMostRuns)
    refuse(what, key, fmt::format("more than {} runs; sweep over less", kMostRuns));
  const std::string last = key.text.substr(key.text.rfind('.') + 1);
  std::vector<SweepRun> all;
  for (const SweepRun& run : runs)
    for (const YamlNode& value : values.items) {
      SweepRun one = run;
      const std::string written = assignment(key, value, what);
      one.assignments.push_back(written);
      one.name += (one.name.empty() ? "" : "-") + last + "-" +
                  as_word(std::string_view(written).substr(key.text.size() + 1));
      all.push_back(std::move(one));
    }
  return all;
}

void check_keys(const YamlNode& root, const std::string& what) {
  for (const YamlNode& key : root.keys)
    if (key.text != "job" && key.text != "set" && key.text != "runs" && key.text != "grid" &&
        key.text != "metrics")
      refuse(what, key,
             fmt::format("unknown key {}; a sweep has job, set, runs, grid and metrics",
                         quote(key.text)));
}

}  // namespace

Sweep parse_sweep(std::string_view text, const std::string& what) {
  const YamlNode root = config::parse_yaml(text, what);
  if (root.kind != Kind::kMap)
    refuse(what, root, "a sweep is a map of job, set, runs, grid and metrics");
  check_keys(root, what);
  Sweep sweep;
  const YamlNode* job = find(root, "job", Kind::kScalar, "the job's file", what);
  if (job == nullptr) refuse(what, root, "a sweep needs job: the file of the job");
  sweep.job = job->text;
  if (const YamlNode* metrics =
          find(root, "metrics", Kind::kList, "a list of entries of metrics.jsonl", what))
    for (const YamlNode& metric : metrics->items) sweep.metrics.push_back(metric.text);
  if (sweep.metrics.empty()) sweep.metrics = {"loss"};
  const YamlNode* runs = find(root, "runs", Kind::kMap, "a map from names to keys", what);
  const YamlNode* grid = find(root, "grid", Kind::kMap, "a map from keys to lists", what);
  if (runs == nullptr && grid == nullptr)
    refuse(what, root, "a sweep needs runs or grid: what its runs differ in");
  sweep.runs = named_runs(runs, what);
  if (grid != nullptr)
    for (std::size_t i = 0; i < grid->keys.size(); ++i)
      sweep.runs = spread(sweep.runs, grid->keys[i], grid->items[i], what);
  if (const YamlNode* set = find(root, "set", Kind::kMap, "a map of keys", what)) {
    const std::vector<std::string> common = assignments(*set, what);
    for (SweepRun& run : sweep.runs)
      run.assignments.insert(run.assignments.begin(), common.begin(), common.end());
  }
  for (std::size_t i = 0; i < sweep.runs.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (sweep.runs[i].name == sweep.runs[k].name)
        refuse(what, root, fmt::format("two runs are called {}", sweep.runs[i].name));
  return sweep;
}

Sweep load_sweep(const Path& path) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 20;
  try {
    return parse_sweep(read_file(path, kMaxBytes), path.string());
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.what());
  }
}

JobOptions job_of(const SweepRun& run, JobOptions job) {
  job.assignments.insert(job.assignments.begin(), run.assignments.begin(), run.assignments.end());
  if (run.ranks || run.nproc) {
    job.ranks = run.ranks;
    job.nproc = run.nproc;
  }
  return job;
}

}  // namespace trireme::runs
