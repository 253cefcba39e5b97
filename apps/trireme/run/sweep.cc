// trireme sweep: runs of one job that differ in some keys, k at a time, and one table of what came of them.
#include "trireme/job/runs/sweep.h"

#include <poll.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "apps/trireme/commands.h"
#include "apps/trireme/environment.h"
#include "apps/trireme/json_output.h"
#include "apps/trireme/output.h"
#include "apps/trireme/summary.h"
#include "child_runs.h"
#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/json.h"
#include "trireme/base/os/processes.h"

namespace trireme::app {
namespace {

namespace fs = std::filesystem;

// One line of the table.
struct Row {
  runs::SweepRun run;
  JobOptions job;
  Path directory;
  std::string ended = "not run";  // "done", or why not
  int code = 0;                   // that it ended with
  double seconds = 0;
  std::map<std::string, double> metrics;
};

// The last value of each entry of metrics.jsonl.
std::map<std::string, double> last_values(const Path& file) {
  std::map<std::string, double> last;
  std::ifstream text(file);
  for (std::string line; std::getline(text, line);) {
    const Json object = Json::parse(line, nullptr, false);
    if (!object.is_object()) continue;
    for (const auto& [name, value] : object.items())
      if (value.is_number()) last[name] = value.get<double>();
  }
  return last;
}

std::vector<Row> rows_of(const SweepOptions& options, const runs::Sweep& sweep, const Path& out) {
  const Path job = fs::path(options.job.file).parent_path() / sweep.job;
  std::vector<Row> rows;
  for (const runs::SweepRun& run : sweep.runs) {
    Row row{.run = run, .job = runs::job_of(run, options.job), .directory = out / run.name};
    row.job.file = job.string();
    try {
      check_early(read_job(row.job), find_place(row.job.ranks, row.job.nproc));
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("run {}: {}", run.name, error.what()));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Starts runs, `at_once` at a time, and stays until they have ended.
class Runner {
 public:
  Runner(std::vector<Row>& rows, int at_once)
      : rows_(rows), at_once_(at_once), processes_(os::make_processes()) {}

  // Returns the signal that asked to stop, or 0.
  int run() {
    for (;;) {
      while (stopping_ == 0 && static_cast<int>(running_.size()) < at_once_ && next_ < rows_.size())
        start(rows_[next_++]);
      if (running_.empty()) return stopping_;
      pollfd ready{.fd = processes_->descriptor(), .events = POLLIN, .revents = 0};
      ::poll(&ready, 1, -1);
      for (const os::ProcessEvent& event : processes_->take()) handle(event);
    }
  }

 private:
  struct Running {
    Row* row;
    std::ofstream log;
    Stopwatch watch{};
    std::string last{};
  };

  void start(Row& row) {
    if (has_ended(row.directory, read_job(row.job).run.steps)) {
      row.ended = "done";
      say(row, "done before");
      return;
    }
    const Path log = row.directory.string() + ".log";
    std::vector<std::string> command = train_command(row.job, row.directory);
    command.emplace_back("--no-calibrate");  // other runs may be active at the same time
    const int pid = processes_->spawn(
        {.command = std::move(command), .environment = own_environment(), .capture = true});
    running_.emplace(pid, Running{.row = &row, .log = std::ofstream(log, std::ios::app)});
    say(row, "started, its output in " + log.string());
  }

  void handle(const os::ProcessEvent& event) {
    using Kind = os::ProcessEvent::Kind;
    if (event.kind == Kind::kSignal) {
      if (stopping_ == 0) stopping_ = event.signal;
      for (const auto& [pid, running] : running_) processes_->signal(pid, event.signal);
      return;
    }
    Running& running = running_.at(event.pid);
    if (event.kind == Kind::kLine) {
      running.log << event.line << "\n" << std::flush;
      if (!event.line.empty()) running.last = event.line;
      return;
    }
    Row& row = *running.row;
    row.seconds = running.watch.seconds();
    row.code = event.signal != 0 ? 128 + event.signal : event.code;
    row.ended = event.signal != 0 ? fmt::format("signal {}", event.signal)
                : event.code != 0 ? fmt::format("exit {}", event.code)
                                  : "done";
    say(row, fmt::format("{} after {:.1f} s{}", row.ended, row.seconds,
                         row.ended == "done" ? "" : ": " + running.last));
    running_.erase(event.pid);
  }

  void say(const Row& row, const std::string& what) {
    fmt::print("run       {}: {}\n", row.run.name, what);
    std::fflush(stdout);
  }

  std::vector<Row>& rows_;
  int at_once_;
  std::unique_ptr<os::Processes> processes_;
  std::map<int, Running> running_;
  std::size_t next_ = 0;
  int stopping_ = 0;  // the signal that asked for it
};

std::string table_text(const std::vector<Row>& rows, const std::vector<std::string>& metrics) {
  std::size_t width = 3;
  for (const Row& row : rows) width = std::max(width, row.run.name.size());
  std::string text = fmt::format("{:<{}}  {:<8}", "run", width, "ended");
  for (const std::string& metric : metrics) text += fmt::format("  {:>12}", metric);
  text += "\n";
  for (const Row& row : rows) {
    text += fmt::format("{:<{}}  {:<8}", row.run.name, width, row.ended);
    for (const std::string& metric : metrics) {
      const auto found = row.metrics.find(metric);
      text += found == row.metrics.end() ? fmt::format("  {:>12}", "-")
                                         : fmt::format("  {:>12.6g}", found->second);
    }
    text += "\n";
  }
  return text;
}

Json table_json(const std::vector<Row>& rows) {
  Json table = Json::array();
  for (const Row& row : rows)
    table.push_back({{"name", row.run.name},
                     {"set", row.run.assignments},
                     {"ended", row.ended},
                     {"seconds", row.seconds},
                     {"directory", row.directory.string()},
                     {"metrics", row.metrics}});
  return table;
}

}  // namespace

int sweep(const SweepOptions& options) {
  if (options.job.file.empty())
    fail(ErrorKind::kUsage, "which sweep? Give a file, such as recipes/sweeps/gpt_tiny_lr.yaml");
  check_output(options.json);
  if (options.at_once < 1)
    fail(ErrorKind::kUsage, "--jobs {}: needs 1 or more runs at a time", options.at_once);
  const runs::Sweep sweep = runs::load_sweep(options.job.file);
  const Path out = options.out.empty() ? fresh_run(fs::path(options.job.file).stem().string())
                                       : Path(options.out);
  std::vector<Row> rows = rows_of(options, sweep, out);
  make_directories(out);
  const int signal = Runner(rows, options.at_once).run();
  for (Row& row : rows) row.metrics = last_values(row.directory / "metrics.jsonl");
  replace_file(out / "sweep.json", table_json(rows).dump(1) + "\n");
  write_json(options.json, table_json(rows));
  fmt::print("\n{}\nthe table is in {}, runs are next to it\n", table_text(rows, sweep.metrics),
             (out / "sweep.json").string());
  if (signal != 0) {
    fmt::print("interrupted; the same command with --out {} continues\n", out.string());
    return 128 + signal;
  }
  const auto failed = std::ranges::find_if(rows, [](const Row& row) { return row.code != 0; });
  return failed == rows.end() ? 0 : failed->code;
}

}  // namespace trireme::app
